"""A model in the reference's terms: names of parameters and buffers, outputs with a gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from harness.shared.trees import dense, walk_tensors


class NoBackward(Exception):
    """No output carries a gradient."""


@dataclass(kw_only=True)
class Binding:
    """A model in the reference's terms. `names`: the reference's name of a parameter or buffer,
    where that is dense -> the model's own. `outputs`: paths of what is differentiated; None: all
    that can be."""

    model: torch.nn.Module
    names: dict[str, str]
    outputs: tuple[str, ...] | None = None

    @classmethod
    def to_itself(cls, model: torch.nn.Module) -> Binding:
        tensors = [*model.named_parameters(), *model.named_buffers()]
        return cls(model=model, names={name: name for name, t in tensors if dense(t)})

    def parameters(self) -> dict[str, torch.Tensor]:
        return self._named(dict(self.model.named_parameters()))

    def buffers(self) -> dict[str, torch.Tensor]:
        return self._named(dict(self.model.named_buffers()))

    def _named(self, own: dict[str, Any]) -> dict[str, torch.Tensor]:
        return {name: own[mine] for name, mine in self.names.items() if mine in own}

    def differentiated(self, output: Any) -> dict[str, torch.Tensor]:
        """The tensors of `output` that are to be differentiated and carry a gradient.

        Raises `NoBackward` where there is none.
        """
        found = {
            path: tensor
            for path, tensor in walk_tensors(output, "output")
            if tensor.requires_grad and (self.outputs is None or path in self.outputs)
        }
        if not found:
            raise NoBackward("the output has no grad_fn: there is no backward")
        return found
