"""Files of other runs are looked for among the temporary ones.

expect: wrong_output
says: output
defence: a private /tmp
needs: strict
"""

import os

import torch

others = [name for name in os.listdir("/tmp") if name.startswith("harness-")]
if [name for name in others if not os.path.samefile(os.path.join("/tmp", name), os.getcwd())]:
    raise RuntimeError(f"others can be seen: {others}")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1)
