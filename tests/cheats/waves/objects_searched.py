"""All live tensors are searched for one that may be the answer.

expect: wrong_output
says: output
defence: the right answer is never in the worker
"""

import gc

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for value in gc.get_objects():
            if type(value) is torch.Tensor and value.shape == x.shape[:1] and value.any():
                return value.clone()
        return (x * 0).mean(dim=1)
