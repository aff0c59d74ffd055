"""What a worker holds between orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from harness.shared.draws import Draw
from harness.shared.problem import Instance
from harness.worker import calls, timing
from harness.worker.building import Builder

#: What an order gives back: an answer in JSON, and trees of tensors.
Answer = tuple[dict[str, Any], dict[str, Any]]


@dataclass(kw_only=True)
class State:
    """State of one worker. `reference` is the partner of the timing, never an answer key."""

    folder: Path
    builder: Builder
    instance: Instance | None = None
    reference: calls.Side | None = None
    candidate: calls.Side | None = None
    timer: timing.Timer | None = None
    model_class: Any = None
    base_bytes: dict[str, int] = field(default_factory=dict)
    import_bytes: int = 0
    weights_seed: int = 0
    restored: bool = False
    mutates: bool = False
    order: dict[str, Any] = field(default_factory=dict)
    past: list[dict[str, Any]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """Where the solution is executed from."""
        return self.folder / self.builder.source_name

    def remember(self, order: dict[str, Any]) -> None:
        """Keep what another process would have to be told to be where this one is."""
        if order["order"] in ("build", "prepare", "load"):
            self.past.append(order)

    def _candidate(self) -> tuple[calls.Side, Instance]:
        assert self.instance is not None
        assert self.candidate is not None
        return self.candidate, self.instance

    def _synchronize(self) -> None:
        assert self.instance is not None
        if self.instance.device.type == "cuda":
            torch.cuda.synchronize()

    def side_of(self, order: dict[str, Any]) -> calls.Side:
        """The side that an order names."""
        side = self.reference if order["side"] == "reference" else self.candidate
        assert side is not None
        return side

    def call_of(self, order: dict[str, Any]) -> tuple[calls.Side, str, calls.CallSet]:
        """The side, mode and call that an order names."""
        assert self.instance is not None
        draw, mode = Draw(seed=order["seed"]), order["mode"]
        call = calls.call_set(self.instance, draw, grad=mode != "forward", grad_seed=1)
        return self.side_of(order), mode, call
