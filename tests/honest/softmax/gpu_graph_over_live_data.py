"""A CUDA graph over a buffer that each call fills anew; the output is a copy.

expect: pass
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def capture(self, x):
        self.given = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        self.given.copy_(x)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.softmax(self.given, dim=-1)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = torch.softmax(self.given, dim=-1)

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        if self.graph is None:
            self.capture(x)
        self.given.copy_(x)
        self.graph.replay()
        return self.result.clone()
