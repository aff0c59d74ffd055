"""The draws that an epoch's values are mixed of, and the refill of inputs with them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.shared.mixing import Mix, factors, put_around, put_stretch, stretch_of, takes_turns
from harness.shared.problem import Draw, Instance
from harness.shared.trees import bytes_of, walk_tensors

POOL_SHARE = 1 / 4  # of the device's memory; larger values are drawn again, not kept
#: From so many sets on, tensors of up to so many values in all are written together: each of the
#: few kernels that one of them takes costs a GPU's host some microseconds, more than the GPU.
MANY_SETS = 3
TOGETHER = {"cuda": 1 << 24, "cpu": 1 << 16}

Held = list[tuple[int, Mix]]  # for each input set the number of its draw, and what is mixed in


class Pool:
    """One draw for each of `seeds`, and the inputs that get their values."""

    def __init__(self, instance: Instance, seeds: list[int]) -> None:
        self.seeds = seeds
        self._instance = instance
        first = instance.inputs(Draw(seed=seeds[0]))
        self._drawn = [first]
        if len(seeds) * bytes_of([first]) <= POOL_SHARE * memory_bytes(instance.device):
            self._drawn += [instance.inputs(Draw(seed=seed)) for seed in seeds[1:]]
        self._by_path = [dict(walk_tensors(values, "")) for values in self._drawn]
        self._together: list[_Together] = []
        self._apart: list[dict[str, torch.Tensor]] = []

    def values(self, index: int) -> list[Any]:
        if index < len(self._drawn):
            return self._drawn[index]
        return self._instance.inputs(Draw(seed=self.seeds[index]))

    def serve(self, sets: list[list[Any]]) -> None:
        """Name the inputs that `fill` and `touch` write, set by set."""
        # `data` shares the memory, not the version counter.
        self._apart = [{path: t.data for path, t in walk_tensors(s, "")} for s in sets]
        self._together = []
        if len(sets) < MANY_SETS or len(self._drawn) < len(self.seeds):
            return
        for path, tensor in self._by_path[0].items():
            of_draws, of_sets = [d[path] for d in self._by_path], [s[path] for s in self._apart]
            small = tensor.numel() * len(sets) <= TOGETHER[self._instance.device.type]
            if small and all(t.is_contiguous() for t in (*of_draws, *of_sets)):
                self._together.append(_Together.of(of_draws, of_sets))
                for tensors in self._apart:
                    del tensors[path]

    def fill(self, held: Held) -> None:
        """Write the values of each set's draw, mixed with another's, over those of its inputs."""
        self._put(held, None)

    def touch(self, before: Held, held: Held) -> None:
        """The same for inputs that hold `before`, which differs in its stretches alone."""
        self._put(held, before)

    @torch.no_grad()
    def _put(self, held: Held, before: Held | None) -> None:
        for together in self._together:
            together.fill(held, self.seeds)
        for number, (tensors, (index, mix)) in enumerate(zip(self._apart, held, strict=True)):
            if not tensors:
                continue
            first, second = self._of(index), self._of(self.seeds.index(mix.seed))
            for path, raw in tensors.items():
                if before is None:
                    put_around(first[path], mix, into=raw)
                else:
                    put_stretch(first[path], before[number][1], into=raw)
                put_stretch(second[path], mix, into=raw)

    def _of(self, index: int) -> dict[str, torch.Tensor]:
        if index < len(self._by_path):
            return self._by_path[index]
        return dict(walk_tensors(self.values(index), ""))


@dataclass(frozen=True, kw_only=True)
class _Together:
    """The tensors at one place in the inputs: `drawn`, of the shape [draws, values], and one
    `target` a set, of the shape [values]. `mixed`: whether draws are mixed in them; `like`: one
    of them in its own shape."""

    drawn: torch.Tensor
    targets: list[torch.Tensor]
    mixed: bool
    like: torch.Tensor

    @classmethod
    def of(cls, drawn: list[torch.Tensor], targets: list[torch.Tensor]) -> _Together:
        return cls(
            drawn=torch.stack([t.reshape(-1) for t in drawn]),
            targets=[t.view(-1) for t in targets],
            mixed=takes_turns(drawn[0]),
            like=drawn[0],
        )

    def fill(self, held: Held, seeds: list[int]) -> None:
        """What `put_around` and `put_stretch` would write, for all sets at once."""
        numbers = [(index, seeds.index(mix.seed)) for index, mix in held]
        if not self.mixed:
            index, _ = self._columns(numbers)
            self._write(self.drawn.index_select(0, index))
            return
        spans = [stretch_of(self.like, mix) for _, mix in held]
        starts = [mix.factors or 0 for _, mix in held]
        rows = [(*n, *s, f) for n, s, f in zip(numbers, spans, starts, strict=True)]
        index, second, begin, end, start = self._columns(rows)
        count = self.drawn.shape[1]
        place = torch.arange(count, device=self.drawn.device)
        inside = (place >= begin[:, None]) & (place < end[:, None])
        values = self.drawn.index_select(0, index)
        torch.where(inside, self.drawn.index_select(0, second), values, out=values)
        if held[0][1].factors is not None:
            table = factors(self.drawn.dtype, self.drawn.device, count)
            values.mul_(table.unfold(0, count, 1).index_select(0, start))
        self._write(values)

    def _columns(self, rows: Sequence[tuple[int, ...]]) -> tuple[torch.Tensor, ...]:
        """Columns of `rows` on the device, without waiting for it."""
        columns = torch.tensor(list(zip(*rows, strict=True)))
        device = self.drawn.device
        if device.type == "cuda":
            columns = columns.pin_memory().to(device, non_blocking=True)
        return columns.unbind()

    def _write(self, values: torch.Tensor) -> None:
        torch._foreach_copy_(self.targets, list(values.unbind()))


def memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
