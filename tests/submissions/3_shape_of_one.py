"""First-day submission 3: shape [1] for [], and no backward."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        d = (predictions.detach() - targets).abs()
        out = torch.empty(1, dtype=d.dtype, device=d.device)  # as kernels return their sums
        out[0] = torch.where(d < 1, 0.5 * d * d, d - 0.5).mean()
        return out
