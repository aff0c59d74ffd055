"""Samples -> ratio and interval.

The epoch, not the sample, is the unit of inference: where an allocation lands moves a ratio
by up to 2 %, and blocks of one epoch share that shift. So each epoch gives one figure (a
trimmed mean over its blocks) and the interval is Student's t over epochs.
"""

from __future__ import annotations

import math
import statistics
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

TRIM = 0.25  # share of blocks cut from each end of an epoch
FASTEST = 0.2  # share of an epoch's units that count where others keep the cores busy
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A ratio (>1: the solution is faster) and the bounds of its 95 % interval.

    The bounds are None when a single epoch was measured: one epoch carries no interval.
    """

    ratio: float
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float:
        """Half of the interval relative to the ratio; infinite without an interval."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / (2 * self.ratio)


def trimmed_mean(values: Sequence[float], trim: float = TRIM) -> float:
    """Mean of `values` without the `trim` share at each end (rounded down).

    Raises `ValueError` for no values.
    """
    if not values:
        raise ValueError("no values to average")
    cut = int(len(values) * trim)
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def ratio_interval(log_ratios: Sequence[Sequence[float]]) -> Interval:
    """exp of the mean over epochs of each epoch's trimmed mean, with a t interval.

    `log_ratios`: one sequence of block log ratios per epoch; empty epochs are left out.
    Raises `ValueError` where no epoch has a block.
    """
    means = [trimmed_mean(blocks) for blocks in log_ratios if blocks]
    if not means:
        raise ValueError("no epoch has a block")
    center = statistics.fmean(means)
    if len(means) == 1:
        return Interval(ratio=math.exp(center), low=None, high=None)
    error = statistics.stdev(means) / math.sqrt(len(means))
    half = _quantile(len(means) - 1) * error
    return Interval(
        ratio=math.exp(center), low=math.exp(center - half), high=math.exp(center + half)
    )


def get_ready() -> None:
    """Load what an interval needs, which takes half a second, while a worker is waited for."""
    threading.Thread(target=_quantile, args=(1,), daemon=True).start()


def _quantile(degrees: int) -> float:
    """Student's t at the upper end of the interval."""
    from scipy.special import stdtrit  # not scipy.stats, which takes 0.7 s to import

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


def quotient(first: Interval, second: Interval) -> Interval:
    """`first` over `second`: two independent ratios, their relative half-widths combined as the
    root of the sum of their squares (on the logarithmic scale)."""
    ratio = first.ratio / second.ratio
    bounds = (first.low, first.high, second.low, second.high)
    if any(b is None for b in bounds):
        return Interval(ratio=ratio, low=None, high=None)
    halves = [math.log(i.high / i.low) / 2 for i in (first, second) if i.high is not None and i.low]
    half = math.hypot(*halves)
    return Interval(ratio=ratio, low=ratio * math.exp(-half), high=ratio * math.exp(half))


def typical(samples: Sequence[Sequence[float]]) -> float:
    """Median over epochs of the median within each. Raises `ValueError` for no samples."""
    return _median_of(statistics.median, samples)


def fast(samples: Sequence[Sequence[float]]) -> float:
    """Median over epochs of `fastest` within each. Raises `ValueError` for no samples."""
    return _median_of(fastest, samples)


def fastest(values: Sequence[float]) -> float:
    """Mean of the least `FASTEST` of `values`, one of them at least. Raises `ValueError` for none.

    For times to which others add and from which nobody takes. Of A/A tests of one thread on two
    cores with up to four other processes, the log ratio of these means was off by 1.3 to 2.0 % rms;
    that of medians by 1.2 to 60 %, of the least alone by 2 to 5 %, the mean over blocks of the log
    ratio of the faster of two units by 1.2 to 22 %.
    """
    if not values:
        raise ValueError("no values to average")
    return statistics.fmean(sorted(values)[: max(1, round(FASTEST * len(values)))])


def _median_of(
    figure: Callable[[Sequence[float]], float], samples: Sequence[Sequence[float]]
) -> float:
    figures = [figure(epoch) for epoch in samples if epoch]
    if not figures:
        raise ValueError("no samples")
    return statistics.median(figures)
