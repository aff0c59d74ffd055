"""An error that is raised as if the machine had failed: such rows are left out of fast_p.

expect: runtime_error
says: no device is left
defence: the judge looks at the machine itself
"""

import torch

from harness.worker.faults import MachineFault


class ModelNew(torch.nn.Module):
    def forward(self, x):
        raise MachineFault("no device is left")
