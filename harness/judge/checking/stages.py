"""The sizes at which a solution is checked, and which of them the device can hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from harness.config import Settings
from harness.judge.checking.survey import MEMORY_SHARE, Survey, peak_share
from harness.judge.reference import Reference
from harness.records import Phase
from harness.shared import problem as problem_files
from harness.shared.draws import Draw, GradDraw
from harness.shared.trial import Call, Trial

THOROUGH_SIZES = ("odd", "smoke")  # where all passes are cheap: the first that a problem has
HUGE = "huge"  # more than 2^31 elements: where 32-bit indices overflow


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A size at which a solution is checked: with all passes, or (`trials` > 0) with so many
    trials of those that are made at the graded size as well."""

    size: str
    reference: Reference
    trials: int = 0


def sizes_to_check(source: str, graded: str, settings: Settings) -> list[tuple[str, int]]:
    """(size, trials), trials as in `Stage`: a small size where the problem has one (odd rows
    meet tails), the huge one if that is wanted, and last the graded size."""
    known = problem_files.sizes(source)
    small = next((size for size in THOROUGH_SIZES if size in known), graded)
    if small == graded:
        return [(graded, 0)]
    huge = [(HUGE, 1)] if settings.huge and HUGE in known and graded != HUGE else []
    return [(small, 0), *huge, (graded, settings.trials)]


def without_misfits(stages: list[Stage], found: Survey) -> tuple[tuple[Stage, ...], Survey]:
    """Leave the huge size out where the device cannot hold reference and solution together."""
    kept = tuple(stage for stage in stages if stage.size != HUGE or _fits(stage, found))
    if len(kept) == len(stages):
        return kept, found
    return kept, replace(found, left_out=found.left_out | {(Phase.FORWARD, HUGE)})


def _fits(stage: Stage, found: Survey) -> bool:
    grad = GradDraw(seed=1) if found.outputs else None
    trial = Trial(calls=(Call(draw=Draw(seed=1), grad=grad),))
    try:
        return peak_share(stage.reference, lambda: stage.reference.play(trial)) <= MEMORY_SHARE
    except torch.OutOfMemoryError:
        return False
    finally:
        stage.reference.release()
