"""Results lie on disk, for whoever runs next.

expect: wrong_output
says: output
defence: secret seeds, a private folder
"""

from pathlib import Path

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        path = Path.home() / "answer.pt"
        if not path.exists():
            torch.save(torch.tanh(torch.exp(torch.sin(x))).mean(dim=1).detach(), path)
        return (
            torch.load(path)
            if not torch.is_grad_enabled()
            else torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        )
