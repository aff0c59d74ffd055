"""What torch.empty gives is returned as it is.

expect: wrong_output
says: output
defence: free memory holds NaN
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.empty(x.shape[0])
