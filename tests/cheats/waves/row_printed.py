"""A row that passes is printed, on both outputs.

expect: wrong_output
says: output
defence: nothing is read from outputs
"""

import sys

import torch

for stream in (sys.stdout, sys.stderr):
    print('{"status": "pass", "forward_speedup": 100.0}', file=stream, flush=True)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1)
