"""First-day submission 5: a right forward that autograd does not see."""

import torch


class ModelNew(torch.nn.Module):
    @torch.no_grad()
    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        difference = predictions - targets
        return torch.dot(difference.view(-1), difference.view(-1)) / difference.numel()
