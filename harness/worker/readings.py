"""Calls that the judge times: a worker makes them and keeps what they return.

What a call returns is sampled at places that are named when all have been made.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.shared.mixing import sample
from harness.shared.trees import bytes_of, map_tensors, stack, walk_tensors
from harness.worker.calls import Side
from harness.worker.input_sets import InputSets
from harness.worker.pool import memory_bytes

RETURNED_SHARE = 1 / 16  # of the device's memory: outputs of calls by the judge's clock,
FREE_SHARE = 1 / 2  # and no more than this of what is free (CUDA)
STOPWATCH_S = 0.5  # a reading's passes end by then: calls may take far longer than was claimed
HOST_PASSES = 3
_monotonic_ns = time.monotonic_ns


@dataclass(kw_only=True)
class Readings(InputSets):
    """The side that is timed, and what its last calls by the judge's clock `returned`."""

    candidate: Side
    returned: list[Any] = field(default_factory=list)

    def stopwatch(
        self, mode: str, *, mix_seed: int, passes: int, touch: bool, seeded: bool = False
    ) -> None:
        """Calls of the candidate that the judge times, on values that follow from `mix_seed`:
        whole new ones, or with `touch` new ones in part, which leaves more of the time to the call.

        What they return is kept for `samples`; where that gets large, or takes long, fewer passes
        are made. With `seeded` each call begins from the seed of the first draw of its values, so
        that what it draws itself can be drawn again.
        """
        self.mix_seed, self.number = mix_seed, 0
        self.returned, held_bytes = [], 0
        most_bytes, began = room_bytes(self.instance.device), time.monotonic()
        for _ in range(passes):
            self.touch() if touch else self.refresh()
            one = self._returned(mode, seeded=seeded)
            self.returned += one
            held_bytes += (one_bytes := bytes_of(one))
            if held_bytes + one_bytes > most_bytes or time.monotonic() - began > STOPWATCH_S:
                return

    def samples(self, seed: int) -> Any:
        """A sample of what each call of the last `stopwatch` returned, stacked, at places that
        follow from `seed`, which the judge names when the work has been done: nobody can do the
        part of it alone that is looked at."""
        returned, self.returned = self.returned, []
        return stack([map_tensors(lambda tensor: sample(tensor, seed), one) for one in returned])

    def host_ms(self, mode: str, *, touch: bool, seeded: bool = False) -> float:
        """Milliseconds that the host alone needs for a call of `stopwatch`, on an idle device.

        The least of a few passes: in the first one it also waits for a copy to the device.
        """
        spans: list[int] = []
        for _ in range(HOST_PASSES):
            if self.instance.device.type == "cuda":
                torch.cuda.synchronize()
            began = _monotonic_ns()
            self.touch() if touch else self.refresh()
            self.returned = self._returned(mode, seeded=seeded)
            kept = self.samples(0)
            spans.append(_monotonic_ns() - began)
            del kept
        return min(spans) / 1e6 / len(self.sets)

    def _returned(self, mode: str, *, seeded: bool) -> list[Any]:
        """What a call on each input set returns, on its own."""
        returned: list[Any] = []
        for calls, (first, _) in zip(self.sets, self.held, strict=True):
            if seeded:
                torch.manual_seed(self.pool.seeds[first])
            returned.append(self.candidate.run(mode, calls, self.candidate.prepare(mode, calls)))
        return self.apart(self._with_inputs(returned), self.candidate.buffers)

    def _with_inputs(self, outputs: list[Any]) -> list[Any]:
        """What a call on each input set returned, and of one that changes its inputs, these."""
        if not self.candidate.mutates:
            return outputs
        return [
            [output, [tensor for _, tensor in walk_tensors(calls.inputs, "")]]
            for calls, output in zip(self.sets, outputs, strict=True)
        ]


def room_bytes(device: torch.device) -> float:
    """How much may be kept of what calls return."""
    most = RETURNED_SHARE * memory_bytes(device)
    if device.type == "cuda":
        most = min(most, FREE_SHARE * torch.cuda.mem_get_info(device)[0])
    return most
