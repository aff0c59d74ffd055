"""`--size fit`: how far a problem's constants are halved until it fits the device.

The constants that `get_inputs` reads are taken in the order in which it reads them, the leading
dimension first, and halved until inputs, weights, activations and gradients fit; on a CPU also
until a forward takes a fraction of a second. What a size would take is worked out on torch's
`meta` device, where nothing is computed; where the file's code does not run there, it is tried
for real, from the smallest size up. The answer depends on the file and on the amount of memory,
not on what else runs, so that a run can be resumed.

Not covered: numbers written in `get_inputs` itself, and constants that are no whole numbers.
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil
import torch
from torch.utils.flop_counter import FlopCounterMode

from harness.errors import ProblemError
from harness.shared.constants import FULL, stated
from harness.shared.dispatch import DispatchMode
from harness.shared.problem import Instance
from harness.shared.trees import bytes_of, walk_tensors

FIT = "fit"
LEAST = 2  # no constant is made smaller: one row would hide what a kernel does with several
GPU_SHARE = 0.4  # of its memory: a worker holds the inputs and two models
OPERATIONS = 2_000  # of a forward: more are not counted, they take too long on any CPU
GAIN = 0.75  # a constant stays as it is where less of it hardly helps
CPU_SHARE = 1 / 5  # of the machine's: judge, worker and a float64 oracle hold it all at once
FORWARD_S = 0.05  # a forward on a CPU, by the rates below: an evaluation runs hundreds of them
#: What one slow core does: constants, so that a problem gets the same size on every CPU.
FLOPS_PER_S, BYTES_PER_S, OPERATION_S = 4e10, 4e9, 1e-5
META = torch.device("meta")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one training step takes at least, and how long a forward does."""

    bytes: float
    forward_s: float = 0.0

    def over(self, budget: Cost) -> float:
        """How many times too much; at most 1 where it fits."""
        return max(self.bytes / budget.bytes, self.forward_s / budget.forward_s)


NEVER = Cost(bytes=math.inf)


def budget_of(device: torch.device) -> Cost:
    """What a problem may take on a device."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        return Cost(bytes=GPU_SHARE * total, forward_s=math.inf)
    return Cost(bytes=CPU_SHARE * psutil.virtual_memory().total, forward_s=FORWARD_S)


def fitted(
    source: str,
    path: str,
    *,
    dtype: torch.dtype,
    device: torch.device,
    budget: Cost | None = None,
) -> str:
    """The size that fits: `full`, or constants such as `batch_size=16`.

    Where nothing fits in time, the smallest that fits in memory. Raises `ProblemError` where
    the reference fails as written, or does not fit at any size.
    """
    scale = _Scale(
        source=source,
        path=path,
        dtype=dtype,
        device=device,
        budget=budget or budget_of(device),
    )
    return scale.find()


def settled(size: str, source: str, path: str, *, dtype: torch.dtype, device: torch.device) -> str:
    """`size`, or what fits where that is asked for. Raises as `fitted` does."""
    return size if size != FIT else fitted(source, path, dtype=dtype, device=device)


@dataclass(kw_only=True)
class _Scale:
    """The search: `chosen` are the constants set so far, at `cost`."""

    source: str
    path: str
    dtype: torch.dtype
    device: torch.device
    budget: Cost
    chosen: dict[str, int] = field(default_factory=dict)
    cost: Cost = NEVER

    def find(self) -> str:
        names = self._instance(FULL, META).leading
        try:
            self.cost = self._count(FULL)
        except ProblemError:
            return self._grown(names)
        for name, value in names.items():
            if self._excess(self.cost) > 1:
                self._shrink({name: value})
        if self._excess(self.cost) > 1 and len(names) > 1:
            self._shrink({name: self.chosen.get(name, value) for name, value in names.items()})
        if self.cost.bytes > self.budget.bytes:
            mended = f"halving {', '.join(names)} does not mend it"
            text = mended if names else "get_inputs reads no constant that could be halved"
            raise ProblemError(f"the reference does not fit the device; {text}", path=self.path)
        return stated(self.chosen)

    def _excess(self, cost: Cost) -> float:
        return cost.over(self.budget)

    def _shrink(self, whole: dict[str, int]) -> None:
        """Halve constants together, as often as needed and no more often than that."""
        most = max(0, int(math.log2(max(whole.values()) / LEAST)))
        costs: dict[int, Cost | None] = {}

        def halved(times: int) -> dict[str, int]:
            return {name: max(value >> times, LEAST) for name, value in whole.items()}

        def excess(times: int) -> float:
            if times not in costs:
                costs[times] = self._try({**self.chosen, **halved(times)})
            cost = costs[times]
            return math.inf if cost is None else self._excess(cost)

        wanted = math.ceil(math.log2(min(self._excess(self.cost), 2.0**most)))
        best = next((n for n in range(max(1, wanted), most + 1) if excess(n) <= 1), 0)
        if best:
            while best > 1 and excess(best - 1) <= 1:
                best -= 1
        else:  # nothing fits: as small as it still runs
            best = next((n for n in range(most, 0, -1) if excess(n) and costs[n]), 0)
        cost = costs.get(best)
        if cost is not None and self._gains(cost):
            self.chosen |= halved(best)
            self.cost = cost

    def _gains(self, cost: Cost) -> bool:
        """Whether it is clearly less than what was found so far."""
        now, before = self._excess(cost), self._excess(self.cost)
        if now == before == math.inf:
            return cost.bytes < GAIN * self.cost.bytes
        return now < GAIN * before

    def _try(self, constants: dict[str, int]) -> Cost | None:
        """The cost with `constants`; None where the reference fails with them."""
        try:
            return self._count(stated(constants))
        except ProblemError:
            return None

    def _grown(self, names: dict[str, int]) -> str:
        """The reference does not run on `meta`: doubled for real until twice would be too much."""
        name, value = next(iter(names.items()), ("", 0))
        fits = ""
        for halvings in range(int(math.log2(value / LEAST)) if name else 0, -1, -1):
            size = stated({name: value >> halvings} if halvings else {})
            try:
                cost = measured(self._instance(size, self.device))
            except ProblemError:
                if not halvings:
                    raise
                continue
            if self._excess(cost) > 1:
                if not fits and cost.bytes <= self.budget.bytes:
                    fits = size  # too slow, and the least there is
                break
            fits = size
            if self._excess(cost) > 0.5:
                break
        if not fits:
            raise ProblemError("the reference does not fit the device", path=self.path)
        return fits

    def _count(self, size: str) -> Cost:
        """On a GPU the truth: what it takes there, if inputs and weights leave room at all."""
        cost = counted(self._instance(size, META), whole=self.device.type != "cuda")
        if self.device.type != "cuda" or self._excess(cost) > 1:
            return cost
        return measured(self._instance(size, self.device))

    def _instance(self, size: str, device: torch.device) -> Instance:
        return Instance(
            source=self.source, path=self.path, size=size, dtype=self.dtype, device=device
        )


# --- what one size takes ------------------------------------------------------------------------


class _TooLong(Exception):
    """More operations than are counted."""


class _Tally(DispatchMode):
    """Counts operations, the bytes that they read and write, and those of new tensors."""

    def __init__(self, most: float = math.inf) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = most
        self.operations = self.moved = self.made = 0

    @property
    def seconds(self) -> float:
        """What all but the FLOPs takes."""
        return self.moved / BYTES_PER_S + self.operations * OPERATION_S

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if getattr(func, "is_view", False):
            return out
        taken = [tensor for _, tensor in walk_tensors([args, kwargs or {}], "")]
        given = [tensor for _, tensor in walk_tensors(out, "")]
        own = {id(tensor) for tensor in taken}
        self.operations += 1
        if self.operations > self.most:
            raise _TooLong
        self.moved += bytes_of([taken, given])
        self.made += bytes_of([tensor for tensor in given if id(tensor) not in own])
        return out


def counted(instance: Instance, *, whole: bool = True) -> Cost:
    """The cost as an instance on `meta` shows it; not `whole`: of inputs and weights alone.

    Memory: inputs, weights and their gradients, everything that a forward makes, and half of
    that again while it goes back. Raises `ProblemError`, also for what `meta` does not allow.
    """
    tally, flops = _Tally(OPERATIONS), FlopCounterMode(display=False)
    seconds = 0.0
    with torch.device(META):
        model, inputs = instance.model(0), instance.drawn(0)
        if whole:
            with contextlib.suppress(_TooLong), flops, tally, _training():
                seconds = math.inf
                instance.guard("Model.forward", lambda: model(*inputs), passing=(_TooLong,))
                seconds = tally.seconds + flops.get_total_flops() / FLOPS_PER_S
    held = bytes_of([inputs, *model.parameters(), *model.buffers()])
    return Cost(bytes=2 * held + 1.5 * tally.made, forward_s=seconds)


def measured(instance: Instance) -> Cost:
    """The cost of a training step that is run for real. `NEVER` where memory runs out."""
    on_gpu = instance.device.type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(instance.device)
    try:
        held, seconds = _step(instance)
        peak = torch.cuda.max_memory_allocated(instance.device) if on_gpu else 2 * held
        return Cost(bytes=peak, forward_s=seconds)
    except torch.OutOfMemoryError:
        return NEVER
    finally:
        if on_gpu:
            gc.collect()
            torch.cuda.empty_cache()


def _step(instance: Instance) -> tuple[int, float]:
    """Bytes of the inputs and of all that a forward makes, and its seconds; then a backward."""
    model, inputs, tally = instance.model(0), instance.drawn(0), _Tally()
    began = time.perf_counter()
    with tally, _training():
        output = instance.guard("Model.forward", lambda: model(*inputs))
    seconds = time.perf_counter() - began
    tensors = [t for _, t in walk_tensors(output, "") if t.requires_grad]
    if tensors:
        grads = [torch.ones_like(tensor) for tensor in tensors]
        instance.guard("backward", lambda: torch.autograd.backward(tensors, grads))
    return tally.made + bytes_of(inputs), seconds


@contextlib.contextmanager
def _training() -> Iterator[None]:
    """With grad, and random numbers from a seed."""
    torch.manual_seed(0)
    with torch.enable_grad():
        yield
