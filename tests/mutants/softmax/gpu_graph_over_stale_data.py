"""A CUDA graph over the first input: later ones are never read.

expect: wrong_output
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        if self.graph is None:
            self.given = x
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.softmax(self.given, dim=-1)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.result = torch.softmax(self.given, dim=-1)
        self.graph.replay()
        return self.result.clone()
