"""Does a speedup from this harness repeat? A/A tests and known effects, beside the peers.

    python -m benchmarks.timing_trust --budget 480 --output results/benchmarks/NAME.csv

Reference and solution are the same streaming kernel over more or fewer elements, so the true
ratio is known: it is found by long alternating batches of each, hundreds of calls behind one
gate. All methods run in one process, turn by turn over all cells, until the budget is spent:
the harness's own procedure (the judge's code with a worker in the same process), triton's
`do_bench`, `torch.utils.benchmark`, and a plain event loop of the kind that most harnesses use.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pandas as pd
import torch

from harness.channel import Message
from harness.config import Settings
from harness.judge import device as devices
from harness.judge.measure import time_mode
from harness.judge.sandbox import Worker
from harness.problem import Instance
from harness.worker import meters
from harness.worker.calls import Side
from harness.worker.session import set_precision
from harness.worker.timing import Timer

SOURCE = """
import torch
class Model(torch.nn.Module):
    def __init__(self, count, repeats):
        super().__init__()
        self.count, self.repeats = count, repeats
    def forward(self, x):
        x = x[:self.count]
        for _ in range(self.repeats):
            y = x * 2.0
        return y
def get_inputs():
    return [torch.randn({size})]
def get_init_inputs():
    return [{count}, {repeats}]
"""
EFFECTS = (1.0, 1.02, 1.10, 2.0)
#: Target milliseconds -> rounds that a cell of this duration sits out after each of its own.
DURATIONS_MS = {0.005: 0, 0.01: 0, 0.05: 0, 0.2: 0, 1.0: 0, 10.0: 1, 100.0: 9}
INNER_MS = 0.2  # longer work repeats a kernel of this duration
WHOLE_REPEATS = 50
MAX_LAUNCHES = 1000  # that one gate holds back
WARM_SECONDS = 0.05  # the process is warm: only the first run of a cell needs more


@dataclass(kw_only=True)
class Cell:
    """One duration, effect and mode: the two sides, the truth, and every estimate so far."""

    target_ms: float
    effect: float
    mode: str
    timer: Timer
    device: devices.Device
    overhead_ms: float
    truth: float = 1.0
    actual_ms: float = 0.0
    estimates: dict[str, list[float]] = field(default_factory=dict)
    covered: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def thunks(self) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """One call of each side on the inputs drawn last."""
        calls = self.timer.sets[0]

        def bind(side: Side) -> Callable[[], Any]:
            if self.mode == "forward":
                return lambda: side.run("forward", calls, None)
            return lambda: side.run("forward_backward", calls, None)

        return bind(self.timer.reference), bind(self.timer.candidate)


class Inline:
    """Answers a worker's timing orders from a timer in this process."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer

    def ask(self, order: str, *, timeout_s: float, **arguments: Any) -> Message:
        if order == "warm_up":
            arguments["seconds"] = WARM_SECONDS
        answer = getattr(self._timer, order)(**arguments)
        return Message(body={"answer": answer})


def build_cell(
    target_ms: float, effect: float, mode: str, device: devices.Device, meter: meters.Meter
) -> Cell:
    """A cell whose reference takes about `effect` times as long as its candidate."""
    inner = min(target_ms, INNER_MS)
    repeats = round(target_ms / inner)
    count = _count_for(inner)
    sides = []
    for factor in (effect, 1.0):
        # Many repeats can be 2 % more; of few, each must be longer.
        more = round(repeats * factor) if repeats >= WHOLE_REPEATS else repeats
        n = count if repeats >= WHOLE_REPEATS else round(count * factor)
        source = SOURCE.format(size=2 * count + 64, count=n, repeats=more)
        sides.append(
            Instance(
                source=source,
                path="stream",
                size="full",
                dtype=torch.float32,
                device=torch.device("cuda"),
            )
        )
    timer = Timer(
        instance=sides[1],
        reference=Side("reference", sides[0].model(1)),
        candidate=Side("candidate", sides[1].model(1)),
        meter=meter,
    )
    overhead = meter.overhead_ms() if isinstance(meter, meters.CudaMeter) else 0.0
    return Cell(
        target_ms=target_ms,
        effect=effect,
        mode=mode,
        timer=timer,
        device=device,
        overhead_ms=overhead,
    )


@functools.cache
def _count_for(ms: float) -> int:
    """Elements that one elementwise kernel handles in about `ms` milliseconds, cold."""
    x = torch.randn(1 << 28, device="cuda")
    low, high = 256, 1 << 28
    while high - low > max(64, low // 100):
        middle = (low + high) // 2
        times = []
        for _ in range(5):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(200_000)
            start.record()
            x[:middle] * 2.0
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        if min(times) < ms:
            low = middle
        else:
            high = middle
    return low


# --- the truth, and the methods ---------------------------------------------------------------


def find_truth(cell: Cell, rounds: int = 7) -> None:
    """Ratio of long batches, A B B A: hundreds of calls each, so that no constant matters."""
    cell.timer.renew(cell.mode, [1, 2], [3], random.Random(1), mix_seed=1)
    launches = max(1, round(cell.target_ms / INNER_MS))
    calls = max(1, min(MAX_LAUNCHES // (2 * launches), math.ceil(40 / cell.target_ms)))
    meter = cell.timer.meter
    ratios, each = [], []
    for _ in range(rounds):
        times = {"reference": 0.0, "candidate": 0.0}
        order = (cell.timer.reference, cell.timer.candidate)
        for side in (*order, *reversed(order)):
            unit = meters.insist(meter, side, cell.mode, cell.timer.sets * calls)
            times[side.name] += unit.ms / 2 / calls
        ratios.append(times["reference"] / times["candidate"])
        each.append(times["candidate"])
    cell.truth, cell.actual_ms = statistics.median(ratios), statistics.median(each)


def ours(cell: Cell) -> float:
    """The harness: epochs until the interval is narrow enough."""
    began = time.monotonic()
    settings = Settings(mode_budget_s=12.0)
    timing = time_mode(
        cast(Worker, Inline(cell.timer)),
        cell.mode,
        device=cell.device,
        settings=settings,
        overhead_ms=cell.overhead_ms,
    )
    cell.seconds.append(time.monotonic() - began)
    interval = timing.interval
    assert interval.low is not None
    assert interval.high is not None
    cell.covered.append(interval.low <= cell.truth <= interval.high)
    return interval.ratio


def do_bench(cell: Cell) -> float:
    """triton.testing.do_bench, medians, one side after the other."""
    from triton.testing import do_bench as bench

    a, b = (bench(f, warmup=5, rep=50, return_mode="median") for f in cell.thunks())
    return float(a / b)


def torch_benchmark(cell: Cell) -> float:
    """torch.utils.benchmark, blocked autorange, medians."""
    from torch.utils.benchmark import Timer as Bench

    a, b = (
        Bench("f()", globals={"f": f}).blocked_autorange(min_run_time=0.05).median
        for f in cell.thunks()
    )
    return a / b


def event_loop(cell: Cell) -> float:
    """A plain loop: warm up, then per trial clear a buffer, record, call, record, wait; means."""
    scratch = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    trials = 100 if cell.target_ms <= 1 else 20 if cell.target_ms <= 10 else 5
    means = []
    for f in cell.thunks():
        for _ in range(3):
            f()
        times = []
        for _ in range(trials):
            torch.cuda.synchronize()
            scratch.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            f()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        means.append(statistics.fmean(times))
    return means[0] / means[1]


METHODS: dict[str, Callable[[Cell], float]] = {
    "harness": ours,
    "do_bench": do_bench,
    "torch.utils.benchmark": torch_benchmark,
    "event loop": event_loop,
}


# --- running and reporting --------------------------------------------------------------------


def make_cells() -> list[Cell]:
    """Forward at all durations and effects; backward at two durations."""
    device = devices.choose("cuda")
    meter = meters.CudaMeter(torch.device("cuda"))
    wanted = [(ms, effect, "forward") for ms in DURATIONS_MS for effect in EFFECTS]
    wanted += [(ms, effect, "forward_backward") for ms in (0.01, 0.2) for effect in (1.0, 1.1)]
    cells = [build_cell(ms, effect, mode, device, meter) for ms, effect, mode in wanted]
    for cell in cells:
        find_truth(cell)
        if cell.effect == 1.0:
            cell.truth = 1.0  # the same function: known, not measured
    return cells


def run(cells: list[Cell], budget_s: float, rounds: int) -> None:
    """Turn by turn over all cells until every cell has `rounds` runs or the budget is spent."""
    began = time.monotonic()
    for number in range(rounds):
        for cell in cells:
            if number % (DURATIONS_MS[cell.target_ms] + 1):
                continue
            for name, method in METHODS.items():
                if time.monotonic() - began > budget_s:
                    return
                cell.estimates.setdefault(name, []).append(method(cell))
        print(f"round {number + 1}: {time.monotonic() - began:.0f} s", flush=True)


def table(cells: list[Cell]) -> pd.DataFrame:
    """One row per cell and method: deviations from the truth, in percent."""
    rows = []
    for cell in cells:
        for name, estimates in cell.estimates.items():
            off = sorted(abs(e / cell.truth - 1) * 100 for e in estimates)
            rows.append(
                {
                    "device": cell.device.name,
                    "mode": cell.mode,
                    "target_ms": cell.target_ms,
                    "measured_ms": round(cell.actual_ms, 5),
                    "effect": cell.effect,
                    "truth": round(cell.truth, 5),
                    "method": name,
                    "runs": len(off),
                    "rms_percent": round(math.sqrt(statistics.fmean(x * x for x in off)), 3),
                    "p95_percent": round(off[min(len(off) - 1, math.ceil(0.95 * len(off)) - 1)], 3),
                    "max_percent": round(off[-1], 3),
                    "covered": sum(cell.covered) / len(cell.covered) if name == "harness" else None,
                    "seconds": round(statistics.median(cell.seconds), 2)
                    if name == "harness"
                    else None,
                }
            )
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--budget", type=float, default=900.0, help="seconds of measuring")
    parser.add_argument("--rounds", type=int, default=20, help="runs of each cell at most")
    parser.add_argument("--output", type=Path, default=Path("timing_trust.csv"))
    options = parser.parse_args()
    set_precision(allow_tf32=False)
    cells = make_cells()
    for cell in cells:
        print(f"{cell.mode} {cell.target_ms} ms x{cell.effect}: truth {cell.truth:.5f}", flush=True)
    try:
        run(cells, options.budget, options.rounds)
    finally:
        frame = table(cells)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(options.output, index=False)
        print(frame.to_string(index=False))


if __name__ == "__main__":
    main()
