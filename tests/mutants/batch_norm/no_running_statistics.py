"""Without the buffers that the reference has.

expect: contract_error
says: buffers differ
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(channels, track_running_stats=False)

    def forward(self, x):
        return self.norm(x)
