"""Figures -> coordinates of the page's plots, which templates/page.html draws.

All axes of ratios and times are logarithmic. Positions are in the units of each plot's viewBox.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.records import MODES, Timing, Value
from harness.report.sides import PlainRow
from harness.report.tables import TIME, is_number, one_line, quantity

BAR_WIDTH = 100.0
WIDTH, HEIGHT = 960.0, 360.0  # of the roofline
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 50.0, 38.0  # its margins
COLUMN_WIDTH = 10.0  # points so near to each other have one name
NAME_LENGTH, LETTER_WIDTH = 28, 6.2
STRIP_WIDTH, STRIP_ROW = 340.0, 9.0  # of the raw samples: a line an epoch
DEVIATIONS = 41  # bars of a histogram
#: Modes on the roofline; the one without grad and the one with it would lie on each other.
ROOFLINE_MODES = ("forward", "backward", "forward_backward")


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A logarithmic axis from `low` to `high` over `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where `value` lies; outside of the axis: at its end."""
        inside = min(max(value, self.low), self.high)
        part = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(self.start + part * (self.end - self.start), 2)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A speedup's bar from 1 to the ratio, and its interval."""

    x: float
    width: float
    one: float
    low: float
    high: float
    faster: bool


def speedup_axis(rows: Iterable[PlainRow]) -> Axis:
    """One axis for all bars of a page, so that they can be compared."""
    ratios = [row[f"{mode}_speedup"] for row in rows for mode in MODES]
    known = [ratio for ratio in ratios if is_number(ratio) and ratio > 0]
    low, high = min([0.8, *known]), max([2.0, *known])
    return Axis(low=low * 0.95, high=high * 1.05, start=0.0, end=BAR_WIDTH)


def bar(row: PlainRow, mode: str, axis: Axis) -> Bar | None:
    """The bar of one mode; None where no speedup is credited."""
    ratio, low, high = (row[f"{mode}_{name}"] for name in ("speedup", "low", "high"))
    if not is_number(ratio) or ratio <= 0:
        return None
    one, end = axis.at(1.0), axis.at(ratio)
    bounds = [axis.at(b) if is_number(b) and b > 0 else end for b in (low, high)]
    return Bar(
        x=min(one, end),
        width=round(abs(end - one), 2),
        one=one,
        low=bounds[0],
        high=bounds[1],
        faster=ratio >= 1,
    )


# --- the roofline ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Point:
    """One mode of one row: the solution at `y`, its reference at `reference_y`."""

    row: int
    side: int
    mode: str
    x: float
    y: float
    reference_y: float | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Name:
    """What the points below it are of."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """Fraction of the physical limit over the least time that the device needs."""

    points: Sequence[Point]
    names: Sequence[Name]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    roof: float


def roofline(rows: Sequence[tuple[int, str, PlainRow]]) -> Roofline | None:
    """The plot over (number of the side, name, row); None where no limit is known."""
    found = [
        (number, side, name, mode, row, float(fraction), float(fraction) * float(time))
        for number, (side, name, row) in enumerate(rows)
        for mode in ROOFLINE_MODES
        if is_number(row[f"{mode}_speedup"])  # what is not credited may never have been
        and is_number(fraction := row[f"{mode}_limit_fraction"])
        and is_number(time := row[f"{mode}_solution_ms"])
        and fraction * time > 0
    ]
    if not found:
        return None
    leasts = [least for *_, least in found]
    x = Axis(low=min(leasts) / 1.5, high=max(leasts) * 1.5, start=LEFT, end=WIDTH - RIGHT)
    most = max(1.0, *(fraction for *_, fraction, _ in found))

    def y(fraction: float) -> float:
        return round(HEIGHT - BOTTOM - fraction / most * (HEIGHT - BOTTOM - TOP), 2)

    points = []
    for number, side, name, mode, row, fraction, least in found:
        before = row[f"{mode}_reference_limit_fraction"]
        text = f"{name}, {mode}: {fraction:.0%} of the limit, which is {quantity(least, TIME)}"
        points.append(
            Point(
                row=number,
                side=side,
                mode=mode,
                x=x.at(least),
                y=y(fraction),
                reference_y=y(before) if is_number(before) else None,
                text=text + _rates(row, mode),
            )
        )
    return Roofline(
        points=points,
        names=_names(zip(points, (str(row["problem"]) for *_, row, _, _ in found), strict=True)),
        x_ticks=[Tick(at=x.at(t), text=quantity(t, TIME)) for t in _ticks(x)],
        y_ticks=[Tick(at=y(part / 4), text=f"{part / 4:.0%}") for part in range(5)],
        roof=y(1.0),
    )


def _names(points: Iterable[tuple[Point, str]]) -> list[Name]:
    """Above the roof the problems of the points that stand in a column, in two lines, where they
    fit; the first come first."""
    columns: list[tuple[float, list[str]]] = []
    for point, problem in sorted(points, key=lambda pair: pair[0].x):
        if not columns or point.x - columns[-1][0] > COLUMN_WIDTH:
            columns.append((point.x, []))
        columns[-1][1].append(problem)
    ends = {TOP - 10.0: 0.0, TOP - 24.0: 0.0}  # height -> how far it is written upon
    found = []
    for x, problems in columns:
        text = one_line(", ".join(sorted(set(problems))))
        text = text if len(text) <= NAME_LENGTH else f"{text[: NAME_LENGTH - 1]}…"
        half = len(text) * LETTER_WIDTH / 2
        middle = min(max(x, half), WIDTH - half)
        if room := [y for y, end in ends.items() if middle - half >= end]:
            ends[room[0]] = middle + half + LETTER_WIDTH
            found.append(Name(x=round(middle, 2), y=room[0], text=text))
    return found


def _ticks(axis: Axis) -> list[float]:
    """1, 2 and 5 of each decade, or its 1 alone where that would be many."""
    decades = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    steps = (1, 2, 5) if len(decades) < 4 else (1,)
    values = [step * 10.0**decade for decade in decades for step in steps]
    return [value for value in values if axis.low <= value <= axis.high]


def _rates(row: PlainRow, mode: str) -> str:
    """What moved and was computed at least per second, where the row knows it."""
    time, moved, flops = (row[f"{mode}_{n}"] for n in ("solution_ms", "least_bytes", "least_flops"))
    if not is_number(time) or not is_number(moved):
        return ""
    text = f"; {rate(moved, time)}B/s"
    return text + (f", {rate(flops, time)}FLOP/s" if is_number(flops) and flops else "")


def rate(count: float, time_ms: float) -> str:
    """`4.32 T` for 4.32e12 a second, to be followed by what is counted."""
    each_s = count / time_ms * 1e3
    factor, prefix = next(
        ((f, p) for f, p in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if each_s >= f), (1.0, "")
    )
    return f"{each_s / factor:.3g} {prefix}"


# --- raw samples ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The raw samples of one mode.

    `dots` is an SVG path with a dot for each block's speedup, a line an epoch; `low` to `high`
    its 95 % interval. `reference` and `solution`: heights of a histogram of times, as deviations
    from the median up to `deviation` (a fraction) to either side, what lies beyond at its ends.
    """

    mode: str
    dots: str
    height: float
    ticks: Sequence[Tick]
    low: float | None
    high: float | None
    ratio: float
    reference: Sequence[float]
    solution: Sequence[float]
    deviation: float
    count: int
    dropped: int


def spread(timing: Timing) -> Spread:
    """The plot of one mode's samples. Raises `ValueError` where there are none."""
    epochs = [[math.exp(b.log_ratio) for b in e.blocks] for e in timing.epochs]
    ratios = [ratio for epoch in epochs for ratio in epoch]
    interval = timing.interval
    low, high = min(ratios) * 0.999, max(ratios) * 1.001
    axis = Axis(low=low, high=high, start=6.0, end=STRIP_WIDTH - 6)
    dots = [
        f"M{axis.at(ratio):g} {(line + 0.5) * STRIP_ROW:g}h0"
        for line, epoch in enumerate(epochs)
        for ratio in epoch
    ]
    sides = (
        ([t for e in timing.epochs for t in e.reference_ms], timing.reference_ms),
        ([t for e in timing.epochs for t in e.solution_ms], timing.solution_ms),
    )
    deviations = [[time / middle - 1 for time in times] for times, middle in sides]
    widest = max(_most(one) for one in deviations)
    return Spread(
        mode=timing.mode,
        dots="".join(dots),
        height=len(epochs) * STRIP_ROW,
        ticks=[Tick(at=axis.at(t), text=f"{t:.4g}") for t in (low, high)],
        low=axis.at(interval.low) if interval.low else None,
        high=axis.at(interval.high) if interval.high else None,
        ratio=axis.at(interval.ratio),
        reference=_histogram(deviations[0], widest),
        solution=_histogram(deviations[1], widest),
        deviation=widest,
        count=len(ratios),
        dropped=timing.dropped,
    )


def _most(deviations: Sequence[float]) -> float:
    """A width that holds 98 % of the deviations, 0.1 % at least."""
    ordered = sorted(abs(d) for d in deviations)
    return max(0.001, ordered[int(0.98 * (len(ordered) - 1))])


def _histogram(deviations: Sequence[float], widest: float) -> list[float]:
    """Heights from 0 to 1."""
    counts = [0] * DEVIATIONS
    for deviation in deviations:
        place = round((deviation / widest + 1) / 2 * (DEVIATIONS - 1))
        counts[min(max(place, 0), DEVIATIONS - 1)] += 1
    return [round(count / max(counts), 3) for count in counts]


def number_of(value: Value) -> float | None:
    """A figure to sort by; None for what is missing."""
    return float(value) if is_number(value) else None
