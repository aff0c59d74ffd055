"""Calls on values of which nothing was met before, by the judge's clock.

In a reading of `stopwatch` a sixteenth of each input is new, and rows of the rest have been met; a
unit of `unseen` is timed by the worker, whose clock starts when the values are there. Who keeps
results by row, and works out new ones between the values and that clock (in a hook, or in a thread
that looks on), is fast in both. So here the values follow from seeds that the judge names with the
order to draw them, and its clock runs from then until it has a sample of each output; once more it
is read when they have been drawn, but are in no input yet. The reference's, where no solution is
loaded, holds the same draws.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.draws import Draw
from harness.judge.device import Device
from harness.judge.sandbox import Worker
from harness.judge.stopwatch import Examiner, Inputs, Taken, take
from harness.mixing import whole

#: The fastest of so many readings counts. Where that is not fast enough others may have a part of
#: the cores, so on a CPU further ones are spread over some seconds.
READINGS = 5
MOST_READINGS = {"cuda": 10, "cpu": 20}
PAUSE_S = {"cuda": 0.0, "cpu": 0.1}
READING_S = 0.5  # the former end by then: draws may take long
EXAMINED = 1  # calls of each, all of which may count


@dataclass(frozen=True, kw_only=True)
class First:
    """Milliseconds of one call by the judge's clock: `call_ms` from the order to write drawn values
    into the inputs, `drawn_ms` from that to draw them."""

    call_ms: float = math.inf
    drawn_ms: float = math.inf

    def or_faster(self, other: First) -> First:
        """The least of both."""
        return First(
            call_ms=min(self.call_ms, other.call_ms), drawn_ms=min(self.drawn_ms, other.drawn_ms)
        )


def read(
    worker: Worker,
    mode: str,
    inputs: Inputs,
    *,
    calls: int,
    device: Device,
    timeout_s: float,
    examiner: Examiner | None,
    holds: Callable[[First], bool] = lambda first: True,
) -> First:
    """Time `calls` calls of `mode` at a time, and again while what was found does not hold. Without
    an `examiner` the worker is one that never loads a solution.

    Raises as `Worker.ask` does, and whatever `examiner` raises.
    """
    cuda, fastest, began = device.type == "cuda", First(), time.monotonic()
    for number in range(MOST_READINGS[device.type]):
        if number >= READINGS or time.monotonic() - began > READING_S:
            if holds(fastest):
                break
            time.sleep(PAUSE_S[device.type])
        seeds = [secrets.randbits(48) for _ in range(calls)]
        draw_s = _draw_s(worker, seeds, timeout_s, cuda=cuda, trusted=examiner is None)
        one = take(
            worker,
            "stopwatch_first",
            sets=calls,
            most=calls,
            timeout_s=timeout_s,
            cuda=cuda,
            trusted=examiner is None,
            mode=mode,
            mix_seed=secrets.randbits(48),
            seeded=inputs.renewal.seeded,
        )
        first = First(
            call_ms=1e3 * one.counted_s / calls,
            drawn_ms=1e3 * (draw_s + one.counted_s) / calls,
        )
        fastest = fastest.or_faster(first)
        if examiner is not None:
            _examine(one, mode, inputs, seeds, examiner)
    return fastest


def _draw_s(
    worker: Worker, seeds: Sequence[int], timeout_s: float, *, cuda: bool, trusted: bool
) -> float:
    """Seconds of a draw: of processor time on a CPU, where all of it is known. One core draws; what
    others do meanwhile is not a part of that."""
    before = None if cuda else worker.usage()
    began = time.monotonic()
    worker.ask("draw_first", timeout_s=timeout_s, seeds=list(seeds))
    span_s = time.monotonic() - began
    busy_s = before.busy_s(worker.usage(), trusted=trusted) if before else None
    return span_s if busy_s is None else busy_s


def _examine(
    one: Taken, mode: str, inputs: Inputs, seeds: Sequence[int], examiner: Examiner
) -> None:
    """Look at some of the calls."""
    mixes = whole(one.mix_seed, list(seeds), mix=inputs.renewal.mix)
    for call in secrets.SystemRandom().sample(range(len(seeds)), min(EXAMINED, len(seeds))):
        draw = Draw(seed=seeds[call], mix=mixes[call][1])
        one.show(call, mode, draw, inputs.grad_seeds[call], examiner)
