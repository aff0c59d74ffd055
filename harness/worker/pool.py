"""The draws that an epoch's values are mixed of, and the refill of inputs with them."""

from __future__ import annotations

import os
from typing import Any

import torch

from harness.mixing import Mix, put_around, put_stretch
from harness.problem import Draw, Instance
from harness.trees import walk_tensors

POOL_SHARE = 1 / 4  # of the device's memory; larger values are drawn again, not kept


class Pool:
    """One draw for each of `seeds`."""

    def __init__(self, instance: Instance, seeds: list[int]) -> None:
        self.seeds = seeds
        self._instance = instance
        first = instance.inputs(Draw(seed=seeds[0]))
        self._drawn = [first]
        if len(seeds) * bytes_of([first]) <= POOL_SHARE * _memory_bytes(instance.device):
            self._drawn += [instance.inputs(Draw(seed=seed)) for seed in seeds[1:]]

    def values(self, index: int) -> list[Any]:
        if index < len(self._drawn):
            return self._drawn[index]
        return self._instance.inputs(Draw(seed=self.seeds[index]))

    @torch.no_grad()
    def fill(self, inputs: list[Any], index: int, mix: Mix) -> None:
        """Write the values of draw `index`, mixed with another's, over those of `inputs`."""
        second = self.values(self.seeds.index(mix.seed))
        pairs = zip(walk_tensors(self.values(index), ""), walk_tensors(second, ""), strict=True)
        theirs = {path: (one, other) for (path, one), (_, other) in pairs}
        for path, tensor in walk_tensors(inputs, ""):
            one, other = theirs[path]
            raw = tensor.data  # shares the memory, not the version counter
            put_around(one, mix, into=raw)
            put_stretch(other, mix, into=raw)

    @torch.no_grad()
    def touch(self, inputs: list[Any], index: int, before: Mix, mix: Mix) -> None:
        """The same for inputs that hold draw `index`, but for the stretch of `before`."""
        second = dict(walk_tensors(self.values(self.seeds.index(mix.seed)), ""))
        first = dict(walk_tensors(self.values(index), ""))
        for path, tensor in walk_tensors(inputs, ""):
            raw = tensor.data
            put_stretch(first[path], before, into=raw)
            put_stretch(second[path], mix, into=raw)


def _memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def bytes_of(values: list[Any]) -> int:
    """Bytes of all tensors of `values`."""
    return sum(t.numel() * t.element_size() for _, t in walk_tensors(values, ""))
