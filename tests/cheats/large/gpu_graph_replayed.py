"""Timed calls replay a graph over the input that it was captured with.

expect: rejected
says: a timed call
defence: fresh values in every timed call
"""

import sys

import torch

DEVICES = ("cuda",)


def timed():
    """Whether a unit is being timed."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "unit":
        frame = frame.f_back
    return frame is not None


class ModelNew(torch.nn.Module):
    graph = None

    def forward(self, x):
        if not timed():
            self.last = x
            return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        if self.graph is None:
            self.given = x.clone()
            self.graph = torch.cuda.CUDAGraph()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                x = self.given
                torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(self.graph):
                self.output = torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        self.graph.replay()
        return self.output
