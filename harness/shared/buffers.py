"""The buffers of a model as they are, to be put back after calls that go by them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness.shared.trees import dense, once


@dataclass(frozen=True, kw_only=True)
class Buffers:
    """`kept`: for each dense buffer of a model its module, its name there, the tensor, its values.
    Nothing writes into one that is sparse."""

    kept: tuple[tuple[torch.nn.Module, str, torch.Tensor, torch.Tensor], ...] = ()

    @classmethod
    def of(cls, model: torch.nn.Module) -> Buffers:
        """Those of `model`, also of parts of it, with copies of their values."""
        return cls(
            kept=tuple(
                (module, name, tensor, once(tensor).detach().clone())
                for module in model.modules()
                for name, tensor in module.named_buffers(recurse=False)
                if dense(tensor)
            )
        )

    @torch.no_grad()
    def put_back(self) -> None:
        """The same tensors, with the same values. A call may have put others in their place: these
        would have its dtype, its shape, and its graph."""
        for module, name, tensor, values in self.kept:
            if getattr(module, name, None) is not tensor:
                setattr(module, name, tensor)
            if once(tensor).shape == values.shape:
                once(tensor).copy_(values)
