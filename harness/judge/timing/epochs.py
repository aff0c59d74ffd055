"""The epochs of one mode: ordered, read as claims, and looked at.

After an epoch the judge may ask for the output of any timed call of it, chosen then.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from harness import stats
from harness.config import Settings
from harness.judge.process.sandbox import Worker, WorkerLied, claimed
from harness.judge.timing.claims import number, per_call, positive
from harness.judge.timing.monitor import DROPPED, Monitor
from harness.judge.timing.stopwatch import Examiner, Inputs
from harness.shared.mixing import Renewal
from harness.timings import Block, Epoch, Timing
from harness.wording import counted

MIN_CUDA_UNIT_MS = 0.1  # what a unit holds beside its calls is known to half a microsecond or so
MIN_CPU_UNIT_MS = 0.5
MAX_SETS = 64
MAX_CPU_SETS = 256
#: Blocks of an epoch take about this long. Epochs count, not blocks; and before each unit of a long
#: call its inputs are written anew, which takes longer than the call. On an H200 blocks of calls
#: above 1 ms vary by 0.03 to 0.3 % within an epoch, and epochs by up to 0.18 % among one another,
#: which more blocks do not change (docs/timing.md).
CUDA_EPOCH_MS = 30.0
#: Of such long calls fewer epochs are enough, if their interval is as narrow.
LONG_MS, LONG_EPOCHS = 1.0, 3
CPU_EPOCH_MS = 100.0
MIN_CUDA_BLOCKS, MIN_CPU_BLOCKS, MAX_BLOCKS = 2, 3, 12
QUICK_SHARE = 0.3  # of an epoch, of the warm-up and of a reading, for a quick look on a GPU
RESOLUTION = 3.0  # a unit shorter than this many event pairs is mostly event pair
MAX_DROPPED_SHARE = 0.25
REVEAL_EVERY = 4
UNSTABLE = "unstable"
BELOW_RESOLUTION = "below_resolution"
ESCAPED_FLAG = "escaped"
#: A device-wide wait after a unit takes its time even when nothing is left to do (14 to 40 us
#: on an H200), but the same for both sides; the solution's is held against the reference's.
ESCAPE_SLACK_MS = 0.02
ESCAPE_SHARE = 0.02  # of the unit


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One epoch: `sets` distinct input sets, each called once a unit, in `blocks` blocks."""

    sets: int
    blocks: int
    epochs_min: int
    epochs_max: int
    budget_s: float


def plan(ms: dict[str, float], *, cuda: bool, settings: Settings, singly: bool = False) -> Plan:
    """How to measure two sides that take about `ms` milliseconds a call; with `singly`, one call a
    unit, for no two can be under way at once."""
    wanted = MIN_CUDA_UNIT_MS if cuda else MIN_CPU_UNIT_MS
    calls = max(1, math.ceil(wanted / min(ms.values())))
    sets = 1 if singly else min(calls, MAX_SETS if cuda else MAX_CPU_SETS)
    block_ms = 2 * sum(ms.values()) * sets
    epoch_ms = CUDA_EPOCH_MS * share(settings) if cuda else CPU_EPOCH_MS
    least = MIN_CUDA_BLOCKS if cuda else MIN_CPU_BLOCKS
    blocks = round(min(MAX_BLOCKS, max(least, epoch_ms / block_ms)))
    few = cuda and min(ms.values()) >= LONG_MS
    return Plan(
        sets=sets,
        blocks=blocks,
        epochs_min=min(settings.epochs_min, LONG_EPOCHS) if few else settings.epochs_min,
        epochs_max=settings.epochs_max,
        budget_s=settings.mode_budget_s if cuda else settings.cpu_mode_budget_s,
    )


def share(settings: Settings) -> float:
    """How much of an epoch, of a warm-up and of a reading is wanted."""
    return QUICK_SHARE if settings.quick else 1.0


@dataclass(kw_only=True)
class Epochs:
    """Those so far, all by one meter: `gated`, by events behind a gate (CUDA), of which each unit
    holds `overhead_ms`, or by the host's clock. With `minima` the fastest units of an epoch count
    (`Timing`)."""

    worker: Worker
    mode: str
    steps: Plan
    settings: Settings
    renewal: Renewal
    overhead_ms: float
    gated: bool
    minima: bool
    examiner: Examiner | None
    inputs: Inputs = field(default_factory=Inputs)
    epochs: list[Epoch] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)

    def measure(self, monitor: Monitor) -> None:
        """Order one epoch, drop its disturbed blocks, look at one of its outputs."""
        self.inputs = Inputs.fresh(self.steps.sets, self.renewal)
        order_seed = secrets.randbits(48)
        began = time.monotonic()
        answer = self.worker.ask(
            "epoch",
            timeout_s=self.settings.call_timeout_s,
            mode=self.mode,
            seeds=list(self.inputs.seeds),
            grad_seeds=list(self.inputs.grad_seeds),
            blocks=self.steps.blocks,
            order_seed=order_seed,
        ).body["answer"]
        wall_s = time.monotonic() - began
        with claimed():
            came_to_wait = self.gated and bool(answer["host_bound"])
            self._read(answer, monitor, wall_s)
            kept = self._kept(answer)
        if came_to_wait:
            self.gated, self.overhead_ms = False, 0.0
            self.epochs.clear()  # they went by another clock, as a part of this one did
            self.flags.clear()
            self.measure(monitor)
            return
        self._reveal(kept, order_seed)

    def _read(self, answer: dict[str, Any], monitor: Monitor, wall_s: float) -> None:
        """What an epoch's answer claims."""
        if len(answer["blocks"]) != self.steps.blocks:
            count = len(answer["blocks"])
            raise WorkerLied(f"{counted(count, 'block')} answered, {self.steps.blocks} ordered")
        kept: list[Block] = []
        disturbed: list[Block] = []
        for claim in answer["blocks"]:
            block = self._block(claim)
            seen = monitor.during(*map(int, claim["span_ns"]))
            self.flags |= seen - set(DROPPED)
            (disturbed if seen & set(DROPPED) else kept).append(block)
            self.flags |= seen & set(DROPPED)
        epoch = Epoch(blocks=tuple(kept), disturbed=tuple(disturbed), wall_s=wall_s)
        if self._escaped(answer["late_ms"], epoch):
            self.flags.add(ESCAPED_FLAG)
        self.epochs.append(epoch)

    def _kept(self, answer: dict[str, Any]) -> list[int]:
        """The units whose outputs the worker has kept, the last ones, as many as fit; of those,
        where the fastest count, the fastest."""
        took_ms = {
            int(unit): positive(ms)
            for claim in answer["blocks"]
            for unit, ms in zip(claim["units"], claim["candidate"], strict=True)
        }
        kept = [int(unit) for unit in answer["kept"]]
        if not kept or kept != list(took_ms)[-len(kept) :]:
            raise WorkerLied(f"the outputs of units {kept} were kept, not those of the last ones")
        if not self.minima:
            return kept
        return sorted(kept, key=took_ms.__getitem__)[: math.ceil(stats.FASTEST * len(kept))]

    def _escaped(self, late_ms: dict[str, Any], epoch: Epoch) -> bool:
        """Whether the device came to rest later after the solution's units than after the
        reference's, by more than noise."""
        excess_ms = number(late_ms["candidate"]) - number(late_ms["reference"])
        blocks = epoch.blocks + epoch.disturbed
        unit_ms = self.steps.sets * min(min(b.solution_ms) for b in blocks)
        return excess_ms > ESCAPE_SLACK_MS + ESCAPE_SHARE * unit_ms

    def _block(self, claim: dict[str, Any]) -> Block:
        """The times of a block per call, less what the event pair costs."""
        reference, candidate = claim["reference"], claim["candidate"]
        if len(reference) != 2 or len(candidate) != 2:
            raise WorkerLied("a block has two units of each side")
        a, b, c, d = (
            per_call(ms, calls=self.steps.sets, overhead_ms=self.overhead_ms)
            for ms in (*reference, *candidate)
        )
        return Block(reference_ms=(a, b), solution_ms=(c, d))

    def _reveal(self, kept: list[int], order_seed: int) -> None:
        """Look at an output of this epoch: always of the first, of later ones by chance."""
        by_chance = secrets.randbelow(REVEAL_EVERY) == 0
        if self.examiner is None or (len(self.epochs) > 1 and not by_chance):
            return
        unit, call = secrets.choice(kept), secrets.randbelow(self.steps.sets)
        draw, grad_seed = self.inputs.draw(order_seed + unit, call)
        self.examiner.reveal(self.worker, self.mode, draw, grad_seed, unit, call)

    def timing(self, *, flags: tuple[str, ...], wall_ms: dict[str, float]) -> Timing:
        """The samples so far. Where too many blocks were disturbed, none is dropped: what
        remained would be a biased choice, so all are shown, and called unstable."""
        epochs, extra = tuple(self.epochs), set(self.flags)
        dropped = sum(len(e.disturbed) for e in epochs)
        total = dropped + sum(len(e.blocks) for e in epochs)
        if dropped > MAX_DROPPED_SHARE * total or any(not e.blocks for e in epochs):
            epochs = tuple(
                dataclasses.replace(e, blocks=e.blocks + e.disturbed, disturbed=()) for e in epochs
            )
            extra.add(UNSTABLE)
        unit_ms = self.steps.sets * _fastest_ms(epochs)
        if self.overhead_ms and unit_ms < RESOLUTION * self.overhead_ms:
            extra.add(BELOW_RESOLUTION)
        return Timing(
            mode=self.mode,
            calls=self.steps.sets,
            epochs=epochs,
            minima=self.minima,
            flags=(*flags, *sorted(extra)),
            overhead_ms=self.overhead_ms,
            reference_wall_ms=wall_ms["reference"],
            solution_wall_ms=wall_ms["candidate"],
        )


def _fastest_ms(epochs: tuple[Epoch, ...]) -> float:
    return min(ms for e in epochs for ms in (*e.reference_ms, *e.solution_ms))
