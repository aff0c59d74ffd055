"""A plain tensor whose own `cpu` computes the answer.

expect: contract_error
says: attributes
defence: raw bytes, judged in the judge
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        output = (x * 0).mean(dim=1)
        output.cpu = lambda: torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        return output
