"""The input sets that timed calls run on: memory of their own, and values that no call has seen.

Before every unit each set gets other values at the same addresses, through raw copies: no version
counter tells, so nothing kept from an earlier call is right any more. They follow from seeds that
the judge names with its order (`harness.shared.mixing`), so that it can draw them as well.
"""

from __future__ import annotations

import gc
import random
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.shared.mixing import Mix, mixes, touches, whole
from harness.shared.problem import Instance
from harness.shared.trees import apart_from, map_tensors, walk_tensors
from harness.worker.calls import CallSet, plain
from harness.worker.pool import Pool

RETURN_BYTES = 1 << 30  # up to this much memory goes back to the driver between epochs


@dataclass(kw_only=True)
class InputSets:
    """`sets`, and the `pool` of draws that their values are mixed of: there from `draw` on.

    `mix`: whether inputs may be mixed of two draws. `held`: the mixtures that the sets hold now,
    the `number`-th that follow from `mix_seed`.
    """

    instance: Instance
    mix: bool = True
    sets: list[CallSet] = field(default_factory=list)
    pool: Pool = field(init=False)
    mix_seed: int = 0
    number: int = 0
    held: list[tuple[int, Mix]] = field(default_factory=list)

    def draw(
        self,
        mode: str,
        seeds: list[int],
        grad_seeds: list[int],
        shuffle: random.Random,
        *,
        mix_seed: int,
    ) -> None:
        """A set for each of `grad_seeds`, in memory of its own: behind spacers of random size, in
        random order.

        Where much is in use, addresses matter little, and the driver would be busy wiping what
        it gets back while the next units are timed: then the allocator keeps its memory.
        """
        self.sets = []
        gc.collect()
        if self.instance.device.type == "cuda" and torch.cuda.memory_reserved() < RETURN_BYTES:
            torch.cuda.empty_cache()
        self.pool = Pool(self.instance, seeds)
        self.mix_seed, self.number = mix_seed, 0
        spacers = []
        placed: dict[int, CallSet] = {}
        for i in shuffle.sample(range(len(grad_seeds)), len(grad_seeds)):
            size = shuffle.randrange(1, 1 << 22)
            spacers.append(torch.empty(size, dtype=torch.uint8, device=self.instance.device))
            placed[i] = self._place(mode, i, grad_seeds[i])
        self.sets = [placed[i] for i in range(len(grad_seeds))]
        self.pool.serve([calls.inputs for calls in self.sets])

    def _place(self, mode: str, index: int, grad_seed: int) -> CallSet:
        inputs = [map_tensors(torch.clone, value) for value in self.pool.values(index)]
        leaves = self.instance.leaves(inputs) if mode != "forward" else {}
        for leaf in leaves.values():
            leaf.requires_grad_(True)
        return CallSet(inputs=inputs, leaves=leaves, grad_seed=grad_seed, dtype=self.instance.dtype)

    def settle(self, mix_seed: int) -> None:
        """Give every input set the values that `touch` then changes in part."""
        self.mix_seed, self.number = mix_seed, 0
        self.refresh()

    def refresh(self) -> None:
        """Give every input set values that no call has seen, where its tensors are."""
        self.number += 1
        seeds = self.pool.seeds
        self._hold(mixes(self.mix_seed + self.number, seeds, len(self.sets), mix=self.mix))

    def touch(self) -> None:
        """The same in part: a short stretch of each input set gets other values."""
        self.number += 1
        before, seeds = self.held, self.pool.seeds
        self.held = touches(self.mix_seed + self.number, before, seeds)
        self.pool.touch(before, self.held)

    def draw_whole(self, seeds: list[int]) -> None:
        """Draws of `seeds`, one for each set, in place of those before; nothing of them is in a set
        before `hold_whole`."""
        del self.pool  # before the next: both may not fit
        gc.collect()  # before, too: it could run code of a solution's
        self.pool = Pool(self.instance, seeds)
        self.pool.serve([calls.inputs for calls in self.sets])

    def hold_whole(self, mix_seed: int) -> None:
        """Give each input set a draw of its own, where its tensors are."""
        self.number = 0
        self._hold(whole(mix_seed, self.pool.seeds, mix=self.mix))

    def _hold(self, held: list[tuple[int, Mix]]) -> None:
        self.held = held
        self.pool.fill(held)
        for calls, (first, mix) in zip(self.sets, held, strict=True):
            calls.renew_grads(mix.grads)
            if _more_than_tensors(calls.inputs):
                calls.inputs = _around(calls.inputs, self.pool.values(first))

    def apart(self, outputs: list[Any], buffers: list[torch.Tensor]) -> list[Any]:
        """`outputs`, plain; those in copies that share memory with an input, with the gradient of
        an output, as that of a sum does, or with `buffers`: they would get values of the next unit.
        """
        given = [[[calls.inputs, calls.grads] for calls in self.sets], buffers]
        renewed = [tensor for _, tensor in walk_tensors(given, "")]
        return [apart_from(plain(output), renewed) for output in outputs]


def _more_than_tensors(value: Any) -> bool:
    """Whether a tree holds numbers, say, beside its tensors."""
    if isinstance(value, tuple | list):
        return any(map(_more_than_tensors, value))
    if isinstance(value, dict):
        return any(map(_more_than_tensors, value.values()))
    return value is not None and not isinstance(value, torch.Tensor)


def _around(inputs: list[Any], drawn: list[Any]) -> list[Any]:
    """The tensors of `inputs`, and beside them the numbers of `drawn`."""
    tensors = (tensor for _, tensor in walk_tensors(inputs, ""))

    def own(tensor: torch.Tensor) -> torch.Tensor:
        return next(tensors)

    return [map_tensors(own, value) for value in drawn]
