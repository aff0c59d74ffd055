"""What the defences cost: one solution from files to verdict, with all of them, less each, without.

    python -m benchmarks.integrity_cost --problem mse --size smoke --budget 150 \
        --output results/benchmarks/integrity_cost_NAME.csv

The solution is a copy of the reference unless `--solution` names another, so that every run with
all defences is an A/A test too: its speedup has to read 1 within its interval. Variants take
turns until the budget is spent, all on and all off most often; each run is a line of the CSV as
soon as it has ended. The baseline of the reference is measured once, before, and is in none.

Not in any difference, since every variant does it: new values for each unit, the process of its
own, the peak set on purpose, and the digest of the sources where isolation is `default`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import functools
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from harness import ROOT, catalog, config, run
from harness.judge import evaluate, performance
from harness.judge.case import Case, open_case
from harness.judge.checking import checks
from harness.judge.timing import baseline, measure, unseen
from harness.judge.timing.baseline import Baseline
from harness.records import Problem, Row, Solution, Timing
from harness.source import read_solution

FIELDS = (
    "problem",
    "size",
    "solution",
    "device",
    "isolation",
    "variant",
    "total_s",
    "check_s",
    "measure_s",
    "again",
    "status",
    "mode",
    "speedup",
    "low",
    "high",
)


@contextlib.contextmanager
def _no_stopwatch() -> Iterator[None]:
    """No calls by the judge's clock nor on values of which nothing was met, and no reading of the
    reference to hold a claim against."""
    unclocked = functools.partial(measure.time_mode, clocked=False)
    with (
        mock.patch.object(performance, "time_mode", unclocked),
        mock.patch.object(Baseline, "stopwatches", return_value=[]),
    ):
        yield


def _no_unseen() -> AbstractContextManager[Any]:
    return mock.patch.object(unseen, "timed", lambda worker, timing, *_, **__: timing)


def _no_reveals() -> AbstractContextManager[Any]:
    return mock.patch.object(checks.Judged, "reveal")


#: Defence -> what its absence changes: settings, and what is patched meanwhile.
DEFENCES: dict[str, tuple[dict[str, Any], Callable[[], AbstractContextManager[Any]]]] = {
    "isolation": ({"sandbox": "default"}, contextlib.nullcontext),
    "profiled_pass": ({"profile": False}, contextlib.nullcontext),
    "stopwatch": ({}, _no_stopwatch),
    "unseen": ({}, _no_unseen),
    "reveals": ({}, _no_reveals),
}
ON, OFF = "all_on", "all_off"
#: In this order, again and again: the pair that the question is about comes first, and twice.
TURNS = (ON, OFF, *(f"without_{name}" for name in DEFENCES), OFF, ON)


def absent(variant: str) -> list[str]:
    """The defences that a variant does without."""
    if variant in (ON, OFF):
        return list(DEFENCES) if variant == OFF else []
    return [variant.removeprefix("without_")]


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problem", default="mse")
    parser.add_argument("--solution", help="a name; default: a copy of the reference")
    parser.add_argument("--size", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--config", default="default")
    parser.add_argument("--modes", nargs="+", help="modes to time (default: the config's)")
    parser.add_argument("--budget", type=float, default=150.0, help="seconds in all, about")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    deadline = time.monotonic() + options.budget
    flags = {"device": options.device, "size": options.size, "compile_baseline": ()}
    modes = tuple(options.modes) if options.modes else None
    settings = config.load(options.config, flags | {"modes": modes})
    with tempfile.TemporaryDirectory() as folder:
        request = run.Request(
            settings=settings, results_dir=Path(folder), cache_dir=Path(folder) / "cache"
        )
        context = run.make_context(request)
        problem = catalog.load_problem(options.problem, ROOT / "problems")
        solution = _solution(options.solution, problem, Path(folder))
        size = run.size_of(settings, context, run.Job(problem=problem, solutions=[solution]))
        case = open_case(context, problem, size)
        if options.solution:
            _run(case, solution, OFF)  # builds
        lines = _measure(case, solution, deadline, options.output)
    _tell(lines)


def _solution(name: str | None, problem: Problem, folder: Path) -> Solution:
    if name:
        return catalog.load_solution(name, ROOT / "solutions", problem)
    path = folder / "copy.py"
    path.write_text(f"{problem.source}\n\nclass ModelNew(Model):\n    pass\n")
    return read_solution("copy", path, problem)


def _measure(case: Case, solution: Solution, deadline: float, output: Path) -> list[dict[str, Any]]:
    """Runs until there is no time for another as long as the longest so far."""
    lines: list[dict[str, Any]] = []
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for variant in itertools.cycle(TURNS):
            longest = max((line["total_s"] for line in lines), default=0.0)
            if lines and time.monotonic() + longest > deadline:
                return lines
            lines.append(_run(case, solution, variant))
            writer.writerow(lines[-1])
            file.flush()
            print(f"{variant}: {lines[-1]['total_s']:.2f} s, {lines[-1]['status']}", flush=True)
    return lines


def _run(case: Case, solution: Solution, variant: str) -> dict[str, Any]:
    """One evaluation, as a line."""
    changes: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        for name in absent(variant):
            settings, patch = DEFENCES[name]
            changes |= settings
            stack.enter_context(patch())
        again = stack.enter_context(
            mock.patch.object(baseline, "measure_again", wraps=baseline.measure_again)
        )
        settings_now = dataclasses.replace(case.context.settings, **changes)
        chosen = dataclasses.replace(case, context=case.context.on(settings_now))
        began = time.monotonic()
        row, timings = evaluate.evaluate(chosen, solution)
        seconds = time.monotonic() - began
        return _line(row, timings, variant, seconds, again.call_count, chosen)


def _line(
    row: Row, timings: dict[str, Timing], variant: str, seconds: float, again: int, case: Case
) -> dict[str, Any]:
    mode = next(iter(timings), None)
    interval = timings[mode].interval if mode else None
    return {
        "problem": row.problem,
        "size": row.size,
        "solution": row.solution,
        "device": case.context.device.name,
        "isolation": row.isolation,
        "variant": variant,
        "total_s": round(seconds, 3),
        "check_s": row.check_s and round(row.check_s, 3),
        "measure_s": row.measure_s and round(row.measure_s, 3),
        "again": again,
        "status": row.verdict.status.value,
        "mode": mode,
        "speedup": interval and round(interval.ratio, 4),
        "low": interval and interval.low and round(interval.low, 4),
        "high": interval and interval.high and round(interval.high, 4),
    }


def _tell(lines: list[dict[str, Any]]) -> None:
    """Medians beside all off, and how often an A/A test held 1 within its interval."""
    seconds = {v: [x["total_s"] for x in lines if x["variant"] == v] for v in dict.fromkeys(TURNS)}
    base = statistics.median(seconds[OFF]) if seconds[OFF] else None
    for variant, taken in seconds.items():
        if taken:
            middle = statistics.median(taken)
            beside = f", {100 * (middle / base - 1):+.1f} % beside {OFF}" if base else ""
            print(f"{variant}: {middle:.2f} s (median of {len(taken)}){beside}")
    tests = [x for x in lines if x["variant"] == ON and x["low"] and x["solution"] == "copy"]
    held = sum(x["low"] <= 1 <= x["high"] for x in tests)
    if tests:
        print(f"A/A with all on: {held} of {len(tests)} hold 1 within their interval")


if __name__ == "__main__":
    main()
