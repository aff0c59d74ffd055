"""Calls on values of which a solution has met nothing, by the worker's clock.

The values of timed calls are mixed of a few draws: that is cheap, and no result comes again. But
rows do, times other factors, and whole tensors of integers; so who knows the factors' range keeps
where the largest values of a row lie, or an order of indices, and does the rest of the work in the
first calls alone. And what is returned by units whose outputs nobody can ask for any more may be
anything. So the last calls get draws that nobody has met, a set each, and what they returned is
looked at: whoever is fast by what he has met before is slow or wrong there. A solution that bends
the worker's clock is the stopwatch's business.
"""

from __future__ import annotations

import math
import secrets
import time
from dataclasses import replace

from harness.judge.process.sandbox import Worker, WorkerLied, claimed
from harness.judge.timing.claims import per_call
from harness.judge.timing.stopwatch import Examiner, Inputs
from harness.records import Timing
from harness.shared.draws import Draw
from harness.shared.mixing import Renewal, whole

#: The fastest of so many units counts, and the first that is fast enough: where others have a part
#: of the cores, most may be slow, so those of a CPU are spread over some seconds.
TRIES = {"cuda": 10, "cpu": 20}
PAUSE_S = {"cuda": 0.0, "cpu": 0.1}
#: How much longer such a call may take, as a factor; and a unit of them, beside.
SLACK = {"cuda": 1.25, "cpu": 1.5}
SLACK_MS = {"cuda": 0.01, "cpu": 0.1}
#: How much longer the reference may take there, to excuse a solution: one that has kept something
#: could keep the machine busy meanwhile.
EXCUSED = {"cuda": 1.1, "cpu": 1.5}
#: What a claim is not sure of is not claimed, up to this share of it (as in `clock`).
UNSURE_SHARE = 0.05
#: So many calls of the unit that counts are looked at: of one alone, whoever leaves out half of
#: them would be right every second time.
EXAMINED = 3


def timed(
    worker: Worker,
    timing: Timing,
    inputs: Inputs,
    *,
    kind: str,
    timeout_s: float,
    examiner: Examiner,
) -> Timing:
    """`timing` with what such calls take; of a solution that claims for sure to be faster.
    `inputs`: those of the last epoch. The outputs of the unit that counts are looked at, where it
    is fast enough.

    Raises `WorkerLied` where none could be timed, as `Worker.ask`, and whatever `examiner` does.
    """
    interval = timing.interval
    if interval.ratio * (1 - min(interval.half_width, UNSURE_SHARE)) <= 1:
        return timing
    for number in range(TRIES[kind]):
        if number:
            time.sleep(PAUSE_S[kind])
        seeds, mix_seed = [secrets.randbits(48) for _ in inputs.grad_seeds], secrets.randbits(48)
        answer = worker.ask(
            "unseen", timeout_s=timeout_s, mode=timing.mode, seeds=seeds, mix_seed=mix_seed
        ).body["answer"]
        with claimed():
            took_ms = {
                name: per_call(ms, calls=timing.calls, overhead_ms=timing.overhead_ms)
                for name, ms in dict(answer["ms"]).items()
            }
            if not took_ms:
                continue
            timing = replace(
                timing,
                unseen_ms=min(timing.unseen_ms or math.inf, took_ms["candidate"]),
                unseen_reference_ms=min(
                    timing.unseen_reference_ms or math.inf, took_ms["reference"]
                ),
            )
        if not slower(timing, kind):
            mixes = whole(mix_seed, seeds, mix=inputs.renewal.mix)
            for call in _examined(len(seeds), inputs.renewal):
                draw = Draw(seed=seeds[call], mix=mixes[call][1])
                examiner.first(worker, timing.mode, draw, inputs.grad_seeds[call], call)
            return timing
    if timing.unseen_ms is None:
        raise WorkerLied(f"{timing.mode}: no call on values that it had not met could be timed")
    return timing


def _examined(calls: int, renewal: Renewal) -> list[int]:
    """Which calls of a unit are looked at: some, or, where they draw random numbers or go by
    buffers, the first, that began from a seed and from buffers as they were."""
    if renewal.seeded or renewal.restored:
        return [0]
    return secrets.SystemRandom().sample(range(calls), min(EXAMINED, calls))


def slower(timing: Timing, kind: str) -> bool:
    """Whether calls on values that were not met before took longer than others; where the reference
    did too, so may they, within bounds."""
    if timing.unseen_ms is None or timing.unseen_reference_ms is None:
        return False
    reference_ms = min(timing.unseen_reference_ms, EXCUSED[kind] * timing.reference_ms)
    usual_ms = max(timing.solution_ms, reference_ms / timing.interval.ratio)
    return timing.unseen_ms > SLACK[kind] * usual_ms + SLACK_MS[kind] / timing.calls
