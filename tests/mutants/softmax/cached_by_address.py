"""Results are looked up by the address of the input.

expect: wrong_output
says: over several calls
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        key = x.data_ptr()
        if key not in self.known:
            self.known[key] = (x, torch.softmax(x, dim=-1))  # x is kept, so it keeps its address
        return self.known[key][1]
