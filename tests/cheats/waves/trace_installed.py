"""sys.settrace watches for a local variable that holds the answer.

expect: wrong_output
says: output
defence: the right answer is never in the worker
"""

import sys

import torch

seen = []


def trace(frame, event, argument):
    if event == "return" and torch.is_tensor(argument) and argument.ndim == 1:
        seen.append(argument)
    return trace if "harness" in frame.f_code.co_filename else None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        sys.settrace(trace)
        return seen[-1] if seen else (x * 0).mean(dim=1)
