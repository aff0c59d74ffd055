"""Raw samples of a timed mode, as they are kept; ratio, interval and times are derived of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness import stats


@dataclass(frozen=True, kw_only=True)
class Block:
    """Times of one A B B A (or B A A B) block, in ms per call: two units of each side."""

    reference_ms: tuple[float, float]
    solution_ms: tuple[float, float]

    @property
    def log_ratio(self) -> float:
        """ln(reference / solution), averaged over the block's two pairs."""
        a, b = self.reference_ms, self.solution_ms
        return (math.log(a[0]) + math.log(a[1]) - math.log(b[0]) - math.log(b[1])) / 2


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The blocks measured on one fresh allocation.

    `disturbed` ones, during which the card was throttled or shared, do not count. `wall_s` is
    what the judge waited for the epoch.
    """

    blocks: tuple[Block, ...]
    disturbed: tuple[Block, ...] = ()
    wall_s: float = 0.0

    @property
    def reference_ms(self) -> list[float]:
        """Of each unit of the reference, ms per call."""
        return [ms for block in self.blocks for ms in block.reference_ms]

    @property
    def solution_ms(self) -> list[float]:
        """Of each unit of the solution, ms per call."""
        return [ms for block in self.blocks for ms in block.solution_ms]

    @property
    def log_ratio_of_fastest(self) -> float:
        """ln(reference / solution) of the fastest units of each side (`stats.fastest`)."""
        return math.log(stats.fastest(self.reference_ms) / stats.fastest(self.solution_ms))


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Raw samples of one mode; ratio and interval are derived (method: `stats`).

    With `minima` (on a CPU, where a disturbance only ever adds time) an epoch's ratio and times are
    those of its fastest units. `overhead_ms` has been taken off each unit of `calls` calls.
    `reference_wall_ms` and `solution_wall_ms`: one call by the wall clock, launches included.
    `stopwatch_ms`: one call of the solution by the judge's clock, with new values and a sample of
    the output; `stopwatch_host_ms`: what the host alone needs for it (CUDA, where no solution is
    loaded); `busy_ms`: how long it kept the device busy (CUDA, where the clock alone speaks against
    the claim). `cores`: how many the worker's processes kept busy meanwhile. `unseen_ms` and
    `unseen_reference_ms`: a call of each side on values of which the solution had met nothing.
    """

    mode: str
    calls: int
    epochs: tuple[Epoch, ...]
    minima: bool = False
    flags: tuple[str, ...] = ()
    overhead_ms: float = 0.0
    reference_wall_ms: float | None = None
    solution_wall_ms: float | None = None
    stopwatch_ms: float | None = None
    stopwatch_host_ms: float | None = None
    busy_ms: float | None = None
    cores: float | None = None
    unseen_ms: float | None = None
    unseen_reference_ms: float | None = None

    @property
    def dropped(self) -> int:
        """How many blocks were dropped as disturbed."""
        return sum(len(e.disturbed) for e in self.epochs)

    @property
    def wall_speedup(self) -> float | None:
        """The ratio of wall-clock times: what a caller sees who launches one call at a time."""
        if self.reference_wall_ms is None or self.solution_wall_ms is None:
            return None
        return self.reference_wall_ms / self.solution_wall_ms

    @property
    def interval(self) -> stats.Interval:
        """Speedup of the solution over the reference with its 95 % interval."""
        epochs = [e for e in self.epochs if e.blocks]
        if self.minima:
            return stats.ratio_interval([[e.log_ratio_of_fastest] for e in epochs])
        return stats.ratio_interval([[b.log_ratio for b in e.blocks] for e in epochs])

    @property
    def reference_ms(self) -> float:
        """Typical time of one reference call."""
        return self._typical_ms([e.reference_ms for e in self.epochs])

    @property
    def solution_ms(self) -> float:
        """Typical time of one solution call."""
        return self._typical_ms([e.solution_ms for e in self.epochs])

    def _typical_ms(self, units_ms: list[list[float]]) -> float:
        return stats.fast(units_ms) if self.minima else stats.typical(units_ms)
