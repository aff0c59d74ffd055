"""Times that a worker claims, as numbers that the judge can reckon with.

Whatever else is answered raises `WorkerLied`.
"""

from __future__ import annotations

import math
from typing import Any

from harness.judge.process.sandbox import WorkerLied

#: Of any time that is claimed: no clock tells less, and no order may take longer.
LEAST_MS, MOST_MS = 1e-7, 1e8


def pair(claim: Any) -> dict[str, float]:
    """Times of both sides by name, ms."""
    return {name: positive(dict(claim).get(name)) for name in ("reference", "candidate")}


def number(value: Any) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WorkerLied(f"{value!r} is no time")
    return float(value)


def positive(value: Any) -> float:
    """A time in ms that sums, ratios and logarithms can take."""
    found = number(value)
    if not LEAST_MS <= found <= MOST_MS:
        raise WorkerLied(f"{value!r} is no time")
    return found


def per_call(value: Any, *, calls: int, overhead_ms: float) -> float:
    """Of what a unit of so many calls took, ms a call: less what the event pair costs, but never
    less than a tenth."""
    unit_ms = positive(value)
    return max(unit_ms - overhead_ms, unit_ms / 10) / calls
