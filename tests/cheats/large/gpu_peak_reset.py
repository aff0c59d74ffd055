"""The peak of memory is reset at the end of every call.

expect: rejected
says: peak
defence: a peak set on purpose must still stand after the call
memory: measured
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        output = torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        torch.cuda.reset_peak_memory_stats()
        return output
