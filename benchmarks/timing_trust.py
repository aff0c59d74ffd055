"""Does a speedup from this harness repeat? A/A tests and known effects, beside the peers.

    python -m benchmarks.timing_trust --budget 480 --output results/benchmarks/NAME.csv
    python -m benchmarks.timing_trust --device cpu --neighbours 2 --output NAME.csv

A/A: reference and solution are the same streaming kernel. Known effects: both are a kernel that
waits for so many cycles, one for more of them, because what a streaming kernel takes is not in
proportion to what it reads and depends on what the caches hold. The true ratio is found by long
alternating batches of each (`truth`), at the beginning and all along. All methods run in one
process, turn by turn over all cells, until the budget is spent: the harness's own procedure (the
judge's code, its orders done by a worker's session in the same process) and the methods of `peers`.
`--neighbours N` keeps N other processes busy on the same device meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pandas as pd
import psutil
import torch

from benchmarks.peers import PEERS, Pair
from benchmarks.truth import Truth
from harness.config import Settings
from harness.judge import device as devices
from harness.judge.process.sandbox import Worker
from harness.judge.process.toolchain import STEADY
from harness.judge.process.usage import Usage
from harness.judge.timing.measure import time_mode
from harness.shared.channel import Message
from harness.shared.mixing import Renewal
from harness.shared.numerics import set_numerics
from harness.shared.problem import Instance
from harness.worker import meters
from harness.worker.building import Builder
from harness.worker.calls import CallSet, Side
from harness.worker.session import ORDERS, Session
from harness.worker.timing import Timer

STREAM = """
import torch
class Model(torch.nn.Module):
    def __init__(self, repeats):
        super().__init__()
        self.repeats = repeats
    def forward(self, x):
        for _ in range(self.repeats):
            y = x * 2.0
        return y
def get_inputs():
    return [torch.randn({count})]
def get_init_inputs():
    return [{repeats}]
"""
WAIT = """
import torch
class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cycles):
        ctx.cycles = cycles
        torch.cuda._sleep(cycles)
        return x * 2.0
    @staticmethod
    def backward(ctx, grad):
        torch.cuda._sleep(ctx.cycles)
        return grad * 2.0, None
class Model(torch.nn.Module):
    def __init__(self, cycles):
        super().__init__()
        self.cycles = cycles
    def forward(self, x):
        return Wait.apply(x, self.cycles)
def get_inputs():
    return [torch.randn(64)]
def get_init_inputs():
    return [{cycles}]
"""
#: On a CPU only A/A.
EFFECTS = {"cuda": (1.0, 1.02, 1.10, 2.0), "cpu": (1.0,)}
#: Target milliseconds -> rounds that a cell of this duration sits out after each of its own.
DURATIONS_MS = {
    "cuda": {0.005: 0, 0.01: 0, 0.05: 0, 0.2: 0, 1.0: 0, 10.0: 1, 100.0: 9},
    "cpu": {0.06: 0, 2.0: 0},
}
BACKWARD_MS = {"cuda": (0.01, 0.2), "cpu": (2.0,)}
INNER_MS = {"cuda": 0.2, "cpu": 100.0}  # longer work repeats a kernel of this duration
CYCLES_PER_MS = 1.9e6  # about; what it takes is measured
FIRST_LOOKS = 4  # at the truth, before the first round
LOOK_EVERY = 3  # rounds; two looks each
WARM_SECONDS = 0.05  # the process is warm: only the first run of a cell needs more
UNSURE = {"unstable", "contended", "throttled", "host_bound"}
BUSY = """
import torch
x = torch.randn(2048, 2048, device="{device}")
torch.set_num_threads(1)
while True:
    for _ in range(20):
        y = x @ x
    y.sum().item()
"""


@dataclass(kw_only=True)
class Cell:
    """One duration, effect and mode: the two sides, the truth, and every estimate so far."""

    target_ms: float
    effect: float
    mode: str
    session: Session
    device: devices.Device
    overhead_ms: float
    found: Truth | None = None
    actual_ms: float = 0.0
    estimates: dict[str, list[float]] = field(default_factory=dict)
    intervals: list[tuple[float, float]] = field(default_factory=list)
    unsure: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def sides(self) -> tuple[Side, Side]:
        reference, candidate = self.session.reference, self.session.candidate
        assert reference is not None
        assert candidate is not None
        return reference, candidate

    @property
    def truth(self) -> tuple[float, float]:
        """The true ratio and its relative error; known where both sides are one function."""
        return (self.found.ratio, self.found.error) if self.found else (1.0, 0.0)

    def look(self, times: int) -> None:
        """So many more looks at the truth."""
        if self.found:
            for _ in range(times):
                self.found.look()
            self.actual_ms = statistics.median(self.found.each_ms)

    @property
    def covered(self) -> float:
        """The share of runs whose interval holds the truth, as far as that is known."""
        truth, error = self.truth
        low, high = truth * (1 - 2 * error), truth * (1 + 2 * error)
        return statistics.fmean(a <= high and low <= b for a, b in self.intervals)

    def pair(self) -> Pair:
        """One call of each side on the same inputs."""
        instance = self.session.instance
        assert instance is not None
        timer = _timer(self.session)
        timer.renew(self.mode, [1, 2], [3], random.Random(1), mix_seed=1)
        one, other = (functools.partial(s.run, self.mode, timer.sets[0], None) for s in self.sides)
        return one, other


class Inline:
    """Does a worker's orders in this process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def ask(self, order: str, *, timeout_s: float, **arguments: Any) -> Message:
        if order == "warm_up":
            arguments["seconds"] = WARM_SECONDS
        answer, trees = ORDERS[order](self._session, arguments)
        return Message(body={"answer": answer}, trees=trees)

    def cpu_s(self) -> float:
        times = psutil.Process().cpu_times()
        return times.user + times.system

    def usage(self) -> Usage:
        return Usage.of([os.getpid()])


def build_cell(target_ms: float, effect: float, mode: str, device: devices.Device) -> Cell:
    """A cell whose reference takes about `effect` times as long as its candidate."""
    meter = meters.METERS[device.type](device.torch)
    if effect == 1.0:
        inner = min(target_ms, INNER_MS[device.type])
        count = _count_for(inner, device.type)
        sources = [STREAM.format(count=count, repeats=round(target_ms / inner))] * 2
    else:
        sources = [WAIT.format(cycles=round(target_ms * CYCLES_PER_MS * f)) for f in (effect, 1.0)]
    reference, candidate = (
        Instance(source=source, path="cell", size="full", dtype=torch.float32, device=device.torch)
        for source in sources
    )
    folder = Path(tempfile.gettempdir())
    session = Session(folder=folder, builder=Builder(cache=folder, salt="", lean=False))
    session.instance = candidate
    session.reference = Side("reference", reference.model(1))
    session.candidate = Side("candidate", candidate.model(1))
    return Cell(
        target_ms=target_ms,
        effect=effect,
        mode=mode,
        session=session,
        device=device,
        overhead_ms=meter.overhead_ms() if isinstance(meter, meters.CudaMeter) else 0.0,
    )


@functools.cache
def _count_for(ms: float, device: str) -> int:
    """Elements that one elementwise kernel handles in about `ms` milliseconds."""
    largest = 1 << (28 if device == "cuda" else 26)
    x = torch.randn(largest, device=device)
    meter = meters.METERS[device](torch.device(device))
    low, high = 256, largest
    while high - low > max(64, low // 100):
        middle = (low + high) // 2
        view = x[:middle]
        side = Side("probe", _Doubled())
        calls = CallSet(inputs=[view], leaves={}, grad_seed=0)
        times = [meters.insist(meter, side, "forward", [calls]).ms for _ in range(5)]
        if min(times) < ms:
            low = middle
        else:
            high = middle
    return low


class _Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2.0


def _timer(session: Session) -> Timer:
    """The two sides of a session, to be timed apart from the judge's procedure."""
    assert session.instance is not None
    assert session.reference is not None
    assert session.candidate is not None
    device = session.instance.device
    return Timer(
        instance=session.instance,
        reference=session.reference,
        candidate=session.candidate,
        meter=meters.METERS[device.type](device),
    )


def find_truth(cell: Cell) -> None:
    """Begin to find out the true ratio, and how long a call takes."""
    timer = _timer(cell.session)
    if cell.effect == 1.0:
        timer.renew(cell.mode, [1, 2], [3], random.Random(1), mix_seed=1)
        side = cell.sides[1]
        units = [meters.insist(timer.meter, side, cell.mode, timer.sets).ms for _ in range(5)]
        cell.actual_ms = statistics.median(units) - cell.overhead_ms
    else:
        cell.found = Truth(timer=timer, mode=cell.mode)
        cell.look(FIRST_LOOKS)


def ours(cell: Cell) -> float:
    """The harness: epochs until the interval is narrow enough."""
    began = time.monotonic()
    timing = time_mode(
        cast(Worker, Inline(cell.session)),
        cell.mode,
        device=cell.device,
        settings=Settings(mode_budget_s=12.0),
        renewal=Renewal(),
        overhead_ms=cell.overhead_ms,
    )
    cell.seconds.append(time.monotonic() - began)
    interval = timing.interval
    assert interval.low is not None
    assert interval.high is not None
    cell.intervals.append((interval.low, interval.high))
    cell.unsure.append(bool(UNSURE & set(timing.flags)))
    return interval.ratio


# --- running and reporting --------------------------------------------------------------------


def make_cells(device: devices.Device, durations: list[float]) -> list[Cell]:
    """Forward at all durations and effects; both phases at some."""
    wanted = [(ms, effect, "forward") for ms in durations for effect in EFFECTS[device.type]]
    both = [ms for ms in BACKWARD_MS[device.type] if ms in durations]
    wanted += [(ms, effect, "forward_backward") for ms in both for effect in (1.0, 1.1)]
    wanted = [cell for cell in wanted if cell[1] in EFFECTS[device.type]]
    cells = [build_cell(ms, effect, mode, device) for ms, effect, mode in wanted]
    for cell in cells:
        find_truth(cell)
        named = f"{cell.mode} {cell.target_ms} ms x{cell.effect}"
        truth, error = cell.truth
        told = f"{cell.actual_ms:.5f} ms, truth {truth:.5f} +- {error:.5f}"
        print(f"{named}: {told}, {1e3 * cell.overhead_ms:.2f} us a unit taken off", flush=True)
    return cells


def run(cells: list[Cell], until: float, rounds: int, peer_rounds: int, output: Path) -> None:
    """Turn by turn over all cells until every cell has `rounds` runs or time is up."""
    for number in range(rounds):
        for cell in cells:
            if number % (DURATIONS_MS[cell.device.type][cell.target_ms] + 1):
                continue
            if time.monotonic() > until:
                return
            cell.estimates.setdefault("harness", []).append(ours(cell))
            if number % LOOK_EVERY == 0:
                cell.look(2)
            if number >= peer_rounds:
                continue
            pair = cell.pair()
            for name, peer in PEERS[cell.device.type].items():
                cell.estimates.setdefault(name, []).append(peer(pair, cell.actual_ms))
        table(cells).to_csv(output, index=False)
        print(f"round {number + 1}: {max(0.0, until - time.monotonic()):.0f} s left", flush=True)


def table(cells: list[Cell]) -> pd.DataFrame:
    """One row per cell and method: deviations from the truth, in percent."""
    rows = [
        _row(cell, name, estimates) for cell in cells for name, estimates in cell.estimates.items()
    ]
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame


def _row(cell: Cell, method: str, estimates: list[float]) -> dict[str, Any]:
    truth, error = cell.truth
    signed = [(e / truth - 1) * 100 for e in estimates]
    off = sorted(map(abs, signed))
    own = method == "harness"
    return {
        "device": cell.device.name,
        "mode": cell.mode,
        "target_ms": cell.target_ms,
        "measured_ms": round(cell.actual_ms, 5),
        "effect": cell.effect,
        "truth": round(truth, 5),
        "truth_error_percent": round(100 * error, 3),
        "method": method,
        "runs": len(off),
        "bias_percent": round(statistics.fmean(signed), 3),
        "rms_percent": round(math.sqrt(statistics.fmean(x * x for x in off)), 3),
        "p95_percent": round(off[math.ceil(0.95 * len(off)) - 1], 3),
        "max_percent": round(off[-1], 3),
        "covered": round(cell.covered, 3) if own else None,
        "unsure": round(statistics.fmean(cell.unsure), 3) if own else None,
        "seconds": round(statistics.median(cell.seconds), 2) if own else None,
    }


@contextlib.contextmanager
def neighbours(count: int, device: str) -> Iterator[None]:
    """So many other processes, busy on the device; none is a child of this one, as strangers
    would be."""
    script = '"$0" -c "$1" > /dev/null 2>&1 & echo $!'
    command = ["sh", "-c", script, sys.executable, BUSY.format(device=device)]
    pids = [int(subprocess.check_output(command)) for _ in range(count)]
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def settle() -> None:
    """Begin again in the environment of a worker, whose work is done in this process."""
    if not STEADY.items() <= os.environ.items():
        command = [sys.executable, "-m", "benchmarks.timing_trust", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | STEADY)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--budget", type=float, default=900.0, help="seconds, all included")
    parser.add_argument("--rounds", type=int, default=20, help="runs of each cell at most")
    parser.add_argument("--peer-rounds", type=int, default=1000, help="that include the peers")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--durations", help="milliseconds, of those known: 0.01,1.0")
    parser.add_argument("--neighbours", type=int, default=0, help="other processes kept busy")
    parser.add_argument("--output", type=Path, default=Path("timing_trust.csv"))
    options = parser.parse_args()
    settle()
    until = time.monotonic() + options.budget
    set_numerics(allow_tf32=False)
    device = devices.choose(options.device)
    durations = list(DURATIONS_MS[device.type])
    if options.durations:
        durations = [float(ms) for ms in options.durations.split(",")]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    cells = make_cells(device, durations)
    with neighbours(options.neighbours, device.type):
        run(cells, until, options.rounds, options.peer_rounds, options.output)
    found = table(cells)
    found.to_csv(options.output, index=False)
    print(found.to_string(index=False))


if __name__ == "__main__":
    main()
