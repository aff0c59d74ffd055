"""Published solutions, built as they are: how many build lean, and in which share of the time?

    python -m benchmarks.lean_builds FOLDER... --output results/benchmarks/lean_builds_NAME.csv

A folder is an origin: solutions as somebody has published them, in any tree. Of each origin those
are taken whose text can build something, or `--most` of them, as a digest of their names has it:
nobody chooses. They are built as in an evaluation, one after another: lean, which falls back to
torch's headers where it has to; then with torch's headers alone, those that did not build lean,
and the first `--full` of those that did. What builds with neither has met torch's headers already.

A line of the CSV is one source, written as soon as it is known; a file that is there is gone on
with. `lean_s` is what the first build took, fallback and all, `full_s` the second: seconds of
processors, of a worker and its compilers, so that what else runs on the machine counts little.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import Settings
from harness.judge import ahead, build, device
from harness.judge.build import Build
from harness.judge.context import Context
from harness.judge.process import toolchain
from harness.records import Problem, Solution, Status
from harness.run import new_run_id
from harness.source import read_solution

FIELDS = (
    *("origin", "source", "builds", "lean", "status", "lean_s", "full_status", "full_s"),
    *("lean_error", "message"),
)
BUILT = Status.BUILT.value


def main(arguments: list[str]) -> int:
    """Build, write, tell."""
    options = _options(arguments)
    deadline = time.monotonic() + options.budget
    chosen = [one for folder in options.folders for one in sources(folder, options.most)]
    chosen.sort(key=lambda one: _lot(one.origin + one.solution.name))  # all origins by turns
    lines = _read(options.output)
    known = {(line["origin"], line["source"]) for line in lines}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("a" if lines else "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not lines:
            writer.writeheader()
        for one in chosen:
            if (one.origin, one.solution.name) in known:
                continue
            if time.monotonic() > deadline:
                print("the budget is spent", flush=True)
                break
            again = sum(bool(line["full_s"]) for line in lines if line["lean"] == "yes")
            lines.append(_line(one, full=again < options.full, jobs=options.jobs))
            writer.writerow(lines[-1])
            file.flush()
            print(f"{len(lines)} of {len(chosen)}: {_told(lines[-1])}", flush=True)
    print(summary(lines))
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="an origin each")
    parser.add_argument("--most", type=int, help="sources of an origin; default: all")
    parser.add_argument(
        "--full", type=int, default=20, help="of those that build lean, built again"
    )
    parser.add_argument("--jobs", type=int, default=1, help="compilers at once")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds, about")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args(arguments)


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True, kw_only=True)
class Source:
    """A solution, and whose it is."""

    origin: str
    solution: Solution


def sources(folder: Path, most: int | None = None) -> list[Source]:
    """Those of an origin that can build something; at most so many, drawn by lot."""
    found = [
        Source(origin=folder.resolve().name, solution=solution)
        for solution in _solutions(folder)
        if not solution.fault and ahead.needs_build(solution)
    ]
    return sorted(found, key=lambda one: _lot(one.solution.name))[:most]


def _solutions(folder: Path) -> Iterator[Solution]:
    for path in sorted(folder.rglob("*.py")):
        yield read_solution(str(path.relative_to(folder)), path, _PROBLEM)


_PROBLEM = Problem(name="published", path="", source="", digest="")  # of what is only built


def _lot(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


# --- one source -----------------------------------------------------------------------------------


def _line(one: Source, *, full: bool, jobs: int) -> dict[str, Any]:
    """Build it, once or twice."""
    first = _build(one.solution, Settings(max_jobs=jobs))
    built = first.verdict.status is Status.BUILT and bool(first.found.builds)
    lean = "full_headers" not in first.found.flags
    line = {
        "origin": one.origin,
        "source": one.solution.name,
        "builds": len(first.found.builds),
        "lean": ("yes" if lean else "no") if built else "",
        "status": first.verdict.status.value,
        "lean_s": first.found.build_cpu_s,
        "lean_error": next(filter(None, (b["lean_error"] for b in first.found.builds)), ""),
        "message": "" if first.verdict.status is Status.BUILT else first.verdict.message,
    }
    if built and (full or not lean):
        second = _build(one.solution, Settings(max_jobs=jobs, lean_builds=False))
        line |= {"full_status": second.verdict.status.value, "full_s": second.found.build_cpu_s}
    return {key: _cell(line.get(key)) for key in FIELDS}


def _build(solution: Solution, settings: Settings) -> Build:
    """One build by a worker of its own, with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="lean-builds-") as folder:
        context = Context(
            settings=settings,
            device=device.builder(),
            tools=toolchain.find(),
            run_id=new_run_id(),
            cache=Path(folder) / "cache",
            logs=Path(folder) / "logs",
        )
        return build.alone(context, _PROBLEM, solution)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    return re.sub(r"\s+", " ", str("" if value is None else value))[:300]


# --- what it comes to -----------------------------------------------------------------------------


def _told(line: dict[str, str]) -> str:
    if not line["lean"]:
        why = line["message"] or "nothing built"
        return f"{line['origin']}/{line['source']}: {line['status']}: {why}"
    how = "lean" if line["lean"] == "yes" else f"not lean ({line['lean_error']})"
    full = f", with torch's headers {line['full_status']}, {line['full_s']} s" * bool(
        line["full_s"]
    )
    return f"{line['origin']}/{line['source']}: {how}, {line['lean_s']} s{full}"


def summary(lines: list[dict[str, str]]) -> str:
    """Shares and times of all, then of each origin."""
    return "\n".join(
        _counted(lines, "all")
        + [
            text
            for origin in sorted({line["origin"] for line in lines})
            for text in _counted([line for line in lines if line["origin"] == origin], origin)[:1]
        ]
    )


def _counted(lines: list[dict[str, str]], name: str) -> list[str]:
    """In a line how many build, and lean; in further ones the times, and what was odd."""
    built = [line for line in lines if line["lean"]]
    lean = [line for line in built if line["lean"] == "yes"]
    share = f" ({len(lean) / len(built):.0%})" if built else ""
    others = Counter(line["status"] for line in lines if not line["lean"])
    others["nothing to build"] = others.pop(BUILT, 0)
    rest = "".join(f", {count} {what}" for what, count in others.items() if count)
    texts = [
        f"{name}: {len(lines)} sources, {len(built)} built, {len(lean)} of them lean{share}{rest}"
    ]
    for what, some in (("lean", lean), ("not lean", [line for line in built if line not in lean])):
        twice = [line for line in some if line["full_status"] == BUILT]
        if some:
            spent = f"{_median(some, 'lean_s'):.1f} s"
            texts.append(f"built {what}: {spent} in the median")
        if twice:
            ratios = [float(line["lean_s"]) / float(line["full_s"]) for line in twice]
            texts[-1] += (
                f"; {len(twice)} also with torch's headers, {_median(twice, 'full_s'):.1f} s: "
                f"{statistics.median(ratios):.2f} of the time (at most {max(ratios):.2f})"
            )
    if odd := [line["source"] for line in built if line["full_status"] not in ("", BUILT)]:
        texts.append(f"not with torch's headers: {', '.join(odd)}")
    return texts


def _median(lines: list[dict[str, str]], field: str) -> float:
    return statistics.median(float(line[field]) for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
