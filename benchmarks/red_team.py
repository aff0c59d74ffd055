"""All cheats and honest controls, judged again and again: do their verdicts stay the same?

    python -m benchmarks.red_team --runs 10 --output results/benchmarks/red_team_NAME.csv
    python -m benchmarks.red_team --runs 2 -k gate --gpu --output FILE.csv

Every file of tests/cheats/ and tests/honest/ (with `--gpu` those whose name begins with `gpu_`,
else the others) is judged as the tests judge cheats: timed, audited, profiled, one at a time. A
line of the CSV is one verdict, written as it comes; in the end those are listed that were not
as their file says, or that differed between runs.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import catalog
from harness.judge.process import isolation
from harness.records import MODES, Row

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
tricks: Any = importlib.import_module("tricks")
support: Any = importlib.import_module("support")

FIELDS = ("run", "trick", "expected", "status", "flags", "speedup", "as_said", "seconds", "message")


def main() -> int:
    """Judge, write, tell. Status 1 where something was not as its file says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("-k", default="", help="a regular expression that names have to hold")
    parser.add_argument("--gpu", action="store_true", help="those that need a device")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds, about")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    found = tricks.find("cheats") + tricks.find("honest")
    chosen = [
        trick
        for trick in found
        if trick.gpu is options.gpu
        and re.search(options.k, trick.name)
        and not (trick.strict and isolation.unusable())
    ]
    if not chosen:
        parser.error(f"nothing is called like {options.k!r}")
    deadline = time.monotonic() + options.budget
    with tempfile.TemporaryDirectory() as folder:
        lines = _judge(chosen, Path(folder), options.runs, deadline, options.output)
    return _tell(lines)


def _judge(
    chosen: list[Any], folder: Path, runs: int, deadline: float, output: Path
) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        bench = support.Bench(folder=folder)
        for number in range(1, runs + 1):
            bench.cases.clear()  # references are measured anew; what was built is built
            for trick in chosen:
                if time.monotonic() > deadline:
                    return lines
                lines.append({"run": number} | _line(trick, bench))
                writer.writerow(lines[-1])
                file.flush()
                print(f"{number} {trick.name}: {lines[-1]['status']}", flush=True)
    return lines


def _line(trick: Any, bench: Any) -> dict[str, Any]:
    """One verdict beside what the file says of it."""
    problem = catalog.load_problem(trick.path.parent.name, tricks.PROBLEMS)
    began = time.monotonic()
    how = tricks.judged_in_full(trick)
    row: Row = tricks.insist(trick, lambda: bench.judge(trick.path, problem, **how))
    return {
        "trick": trick.name,
        "expected": trick.expect,
        "status": row.verdict.status.value,
        "flags": " ".join(row.flags),
        "speedup": credit(row),
        "as_said": trick.agrees(row),
        "seconds": round(time.monotonic() - began, 1),
        "message": row.verdict.message,
    }


def credit(row: Row) -> float | None:
    """The largest speedup that the row credits."""
    flat = row.flat()
    found = [flat[f"{mode}_speedup"] for mode in MODES]
    return max((float(speedup) for speedup in found if speedup), default=None)


def _tell(lines: list[dict[str, Any]]) -> int:
    """What was not as its file says, and what differed. The exit status."""
    verdicts: dict[str, list[str]] = {}
    for line in lines:
        verdicts.setdefault(line["trick"], []).append(line["status"])
    strange = sorted({line["trick"] for line in lines if not line["as_said"]})
    varied = {name for name, found in verdicts.items() if len(set(found)) > 1}
    for name in sorted({*strange, *varied}):
        counts = {status: verdicts[name].count(status) for status in dict.fromkeys(verdicts[name])}
        print(f"{name}: {', '.join(f'{n} x {status}' for status, n in counts.items())}")
    print(
        f"{len(verdicts)} files, {len(lines)} verdicts: {len(strange)} not as said, "
        f"{len(varied)} that differed between runs"
    )
    return 1 if strange else 0


if __name__ == "__main__":
    sys.exit(main())
