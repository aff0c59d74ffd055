"""Does the claim hold? One function per rule, and the tuple of them.

A rule returns a one-line complaint with the figure claimed and the figure found, or None.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.judge.baseline import Baseline
from harness.judge.measure import ESCAPED_FLAG
from harness.records import Timing

REFERENCE_SHARE = {True: 0.10, False: 0.50}  # by whether the device is CUDA; a CPU is shared
REFERENCE_SLACK_MS = {True: 0.005, False: 0.05}


def wall_clock(timing: Timing, base: Baseline, cuda: bool) -> str | None:
    """The times claimed for an epoch fit into the time that the judge waited for it."""
    for epoch in timing.epochs:
        claimed_s = sum(
            t * timing.calls / 1e3 for b in epoch.blocks for t in (*b.reference_ms, *b.solution_ms)
        )
        if claimed_s > epoch.wall_s:
            return (
                f"{timing.mode}: {claimed_s:.4f} s of measurements are claimed for an epoch "
                f"that took {epoch.wall_s:.4f} s"
            )
    return None


def reference_times(timing: Timing, base: Baseline, cuda: bool) -> str | None:
    """The reference is no slower beside the solution than where no solution is loaded."""
    known = base.reference_ms(timing.mode)
    if not known:
        return None
    allowed = max(known) * (1 + REFERENCE_SHARE[cuda]) + REFERENCE_SLACK_MS[cuda]
    if timing.reference_ms <= allowed:
        return None
    return (
        f"{timing.mode}: the reference took {timing.reference_ms:.4g} ms beside the solution, "
        f"{max(known):.4g} ms alone"
    )


def escaped(timing: Timing, base: Baseline, cuda: bool) -> str | None:
    """No work on the device outlives the clock."""
    if ESCAPED_FLAG not in timing.flags:
        return None
    return f"{timing.mode}: work went on on the device after the timed region had ended"


Rule = Callable[[Timing, Baseline, bool], str | None]
RULES: tuple[Rule, ...] = (wall_clock, reference_times, escaped)


def complaint(timing: Timing, base: Baseline, *, cuda: bool) -> str | None:
    """What does not hold about one mode's claim, or None."""
    return next((text for rule in RULES if (text := rule(timing, base, cuda))), None)
