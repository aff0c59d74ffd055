"""What the defences cost: one solution from files to verdict, with them and without.

    python -m benchmarks.integrity_cost --problem mse --solution cpp [--device cpu] [--rounds 3]

With: as evaluated by default (isolation `auto`, the profiled pass, reveals, the stopwatch).
Without: isolation `default`, no profiled pass, no stopwatch, no looking at timed outputs. What
both do (fresh values per unit, the process boundary) is not in the difference. The baseline of the
reference is measured once and is in neither. Rounds alternate; medians are shown.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from harness import catalog, config, run
from harness.judge import checks, evaluate, stopwatch
from harness.judge.case import open_case
from harness.judge.context import Context


@contextlib.contextmanager
def _without() -> Iterator[None]:
    """The audit's own measurements switched off."""
    with (
        mock.patch.object(stopwatch, "read", return_value=(None, None)),
        mock.patch.object(checks.Judged, "reveal"),
    ):
        yield


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--problem", default="mse")
    parser.add_argument("--solution", default="cpp")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--config", default="default")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    settings = config.load(options.config, {"device": options.device, "compile_baseline": ()})
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        request = run.Request(settings=settings, results_dir=place, cache_dir=place / "cache")
        context = run.make_context(request)
        _measure(context, options.problem, options.solution, options.rounds)


def _measure(context: Context, problem_name: str, name: str, rounds: int) -> None:
    problem = catalog.load_problem(problem_name, run.ROOT / "problems")
    solution = catalog.load_solution(name, run.ROOT / "solutions", problem)
    job = run.Job(problem=problem, solutions=[solution])
    size = run.size_of(context.settings, context, job)
    case = open_case(context, problem, size)
    bare = context.on(dataclasses.replace(context.settings, sandbox="default", profile=False))
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    evaluate.evaluate(case, solution)  # the build is in the cache from here on
    for _ in range(rounds):
        for key in seconds:
            chosen = case if key == "with" else dataclasses.replace(case, context=bare)
            began = time.monotonic()
            with contextlib.nullcontext() if key == "with" else _without():
                row, _ = evaluate.evaluate(chosen, solution)
            seconds[key].append(time.monotonic() - began)
            print(f"{key}: {seconds[key][-1]:.2f} s, {row.verdict.status.value}", flush=True)
    on, off = (statistics.median(seconds[key]) for key in ("with", "without"))
    print(
        f"{problem_name} / {name}, size {size}, on {context.device.name} ({context.isolation}): "
        f"{on:.2f} s with the defences, {off:.2f} s without: {100 * (on / off - 1):+.1f} %"
    )


if __name__ == "__main__":
    main()
