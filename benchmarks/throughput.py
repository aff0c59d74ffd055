"""From files to rows: how long a set of solutions takes, with a cold and a warm cache.

    python -m benchmarks.throughput --count 1,10,100 --output results/benchmarks/throughput_X.csv
    python -m benchmarks.throughput --mse            one solution of mse at full size
    python -m benchmarks.throughput --mse --quick    the same under the preset `quick`

The set is that of `benchmarks.published`, at `--size smoke`. Each run is a process of its own.
Cold: an empty cache folder; warm: again with what the cold run left there, and no results to
resume. `wall_s` is from the request to the last row, `process_s` the whole process, imports
included; with these begins, as on the command line, the process that workers are forked of. The
phases are those of the judge's own thread, told apart by the steps that it announces, and add up to
`wall_s`; `builds_s` is what builds took, most of it meanwhile. `busy_share`: of the wall, how much
went into loading and measuring references, checking, timing, memory and profile; what did not:
start, build, load, waiting for builds, the rest. Noise: the A/A tests of the references, of which
those of the cold run were measured beside builds.

The budget is kept by lowering counts, and by ending a run at it; a run so ended says how many rows
it has (`done`). Lines are written as they come.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from benchmarks import published
from harness import config, run
from harness.judge import device
from harness.records import MODES, Row, Status

WARMED_UP_S = 60.0
GRACE_S = 120.0  # that a step may go beyond the budget
#: Beginning of an announced step -> phase. What begins otherwise is `rest`.
STEPS = {
    "waiting": "wait",
    "start": "start",
    "reference": "reference",
    "build": "build",
    "load": "load",
    "check": "check",
    **dict.fromkeys(MODES, "time"),
    "memory": "memory",
    "profile": "profile",
    "audit": "rest",
}
PHASES = ("wait", "start", "reference", "build", "load", "check", "time", "memory", "profile")
BUSY = ("reference", "check", "time", "memory", "profile")


class OverBudget(Exception):
    """The time is up."""


class Clock(run.Silent):
    """An observer that takes the time of each phase."""

    def __init__(self, deadline: float) -> None:
        self.spans: list[tuple[str, float]] = [("rest", time.monotonic())]
        self.rows: list[Row] = []
        self.rss_mib: list[float] = []
        self._deadline = deadline

    def begin(self, problem: str, solution: str, size: str) -> None:
        self._enter("start")

    def note(self, text: str) -> None:
        step = text.split(":")[0].split()[0]
        self._enter(STEPS.get(step, "rest"))

    def row(self, row: Row) -> None:
        self._enter("rest")
        if row.verdict.status is not Status.PASS:
            said = row.verdict.message.split("\n")[0][:160]
            print(f"  {row.solution}: {row.verdict.status.value}: {said}", flush=True)
        self.rows.append(row)
        self.rss_mib.append(rss_mib())

    def warn(self, text: str) -> None:
        print(text, file=sys.stderr)

    def _enter(self, phase: str) -> None:
        self.spans.append((phase, time.monotonic()))
        if time.monotonic() > self._deadline:
            raise OverBudget

    def seconds(self, since_s: float = 0.0) -> dict[str, float]:
        """Seconds of each phase, from `since_s` after the beginning on."""
        first = self.spans[0][1] + since_s
        found = dict.fromkeys((*PHASES, "rest"), 0.0)
        for (phase, began), (_, ended) in zip(self.spans, self.spans[1:], strict=False):
            found[phase] += max(0.0, ended - max(began, first))
        return found


def rss_mib() -> float:
    """Memory of this process, the judge."""
    return float(psutil.Process().memory_info().rss / 2**20)


# --- one run, in a process of its own ------------------------------------------------------------


def one(request: run.Request, budget_s: float) -> dict[str, Any]:
    """Evaluate, and say how long what took."""
    began_mib = rss_mib()
    clock = Clock(time.monotonic() + budget_s)
    with contextlib.suppress(OverBudget):
        run.execute(request, clock)
    clock.spans.append(("end", time.monotonic()))
    seconds = clock.seconds()
    wall_s = sum(seconds.values())
    later = clock.seconds(WARMED_UP_S)
    rows, noise = clock.rows, noises(clock.rows)
    return {
        "device": rows[0].environment.device_name if rows else None,
        "torch": rows[0].environment.torch if rows else None,
        "python": rows[0].environment.python if rows else None,
        "isolation": rows[0].isolation if rows else None,
        "done": len(rows),
        "wall_s": wall_s,
        "busy_share": share(seconds),
        "busy_share_after_60_s": share(later) if sum(later.values()) > 0 else None,
        **{f"{phase}_s": value for phase, value in seconds.items()},
        "builds_s": sum(row.build_s or 0.0 for row in rows),
        "verdicts": told(Counter(row.verdict.status.value for row in rows)),
        "rss_start_mib": began_mib,
        "rss_first_row_mib": clock.rss_mib[0] if rows else None,
        "rss_half_mib": clock.rss_mib[len(rows) // 2] if rows else None,
        "rss_end_mib": clock.rss_mib[-1] if rows else None,
        "noise_median": statistics.median(noise) if noise else None,
        "noise_max": max(noise, default=None),
    }


def share(seconds: dict[str, float]) -> float:
    """Of all of them, those in which the device was put to use."""
    return sum(seconds[phase] for phase in BUSY) / sum(seconds.values())


def noises(rows: list[Row]) -> list[float]:
    """What the A/A test of each reference and mode came to."""
    found = {(r.problem, m): mode.noise for r in rows for m, mode in r.modes.items()}
    return [noise for noise in found.values() if noise is not None]


def told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


# --- the runs ------------------------------------------------------------------------------------


@dataclasses.dataclass(kw_only=True)
class Plan:
    """What to run. `until`: when the budget is spent, by the monotonic clock."""

    asked: argparse.Namespace
    settings: config.Settings
    until: float
    lines: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def left_s(self) -> float:
        return self.until - time.monotonic()

    def pair(self, what: str, folder: Path, count: int, **request: Any) -> None:
        """Cold, then warm."""
        for cache in ("cold", "warm"):
            if self.left_s < 5:
                print(f"{what}, {cache}: left out, the budget is spent", flush=True)
                continue
            terms = {
                "settings": dataclasses.asdict(self.settings),
                "request": {
                    **request,
                    "output": str(folder / cache / "rows.csv"),
                    "cache_dir": str(folder / "cache"),
                },
                "budget_s": self.left_s,
            }
            began = time.monotonic()
            found = self._run(terms, folder / f"{cache}.json")
            if found is None:
                print(f"{what}, {cache}: failed", flush=True)
                continue
            about = {
                "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
                "what": what,
                "cache": cache,
                "count": count,
                "cores": len(os.sched_getaffinity(0)),
                "config": self.asked.config,
                "size": self.settings.size,
                "modes": "+".join(self.settings.modes),
                "compile_baseline": "+".join(self.settings.compile_baseline) or "off",
            }
            self._tell(about | found | {"process_s": time.monotonic() - began})

    def _run(self, terms: dict[str, Any], file: Path) -> dict[str, Any] | None:
        file.with_suffix(".terms").write_text(json.dumps(terms))
        command = [sys.executable, "-m", "benchmarks.throughput_one", str(file)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, check=False, timeout=terms["budget_s"] + GRACE_S)
            if done.returncode == 0:
                return dict(json.loads(file.read_text()))
        return None

    def _tell(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        late = line["busy_share_after_60_s"]
        phases = ", ".join(f"{p} {line[p + '_s']:.1f}" for p in (*PHASES, "rest"))
        print(
            f"{line['what']}, {line['cache']}: {line['done']} of {line['count']} rows in "
            f"{line['wall_s']:.1f} s (process {line['process_s']:.1f}): {line['verdicts']}\n"
            f"  {phases}; builds {line['builds_s']:.1f}\n"
            f"  busy {line['busy_share']:.0%}"
            + (f", after the first minute {late:.0%}" if late is not None else "")
            + f"; judge {line['rss_first_row_mib'] or 0:.0f} MiB after the first row, "
            f"{line['rss_end_mib'] or 0:.0f} at the end; A/A noise at most "
            f"{line['noise_max'] or 0:.2%}",
            flush=True,
        )
        if self.asked.output:
            self.asked.output.parent.mkdir(parents=True, exist_ok=True)
            pd.DataFrame(self.lines).to_csv(self.asked.output, index=False, float_format="%.4g")

    def affordable(self, count: int) -> int:
        """`count`, or as many as the budget is enough for, by what a solution has taken so far:
        cold in the largest run, and again warm."""
        known = [line for line in self.lines if line["done"]]
        if not known:
            return count
        most = max(line["done"] for line in known)
        each_s = sum(line["process_s"] / most for line in known if line["done"] == most)
        return min(count, max(1, int(self.left_s / each_s)))


def main() -> None:
    """Run what is asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    add = parser.add_argument
    add("--count", default="1,10,100", help="sizes of the set, rising")
    add("--mse", action="store_true", help="in place of the set: mse at its largest size")
    add("--quick", action="store_true", help="under the preset `quick`")
    add("--config", default="default", help="a preset")
    add("--device", default="auto")
    add("--size", help="default: smoke; with --mse: auto")
    add("--modes", type=lambda text: tuple(text.split(",")), help="timed: " + ",".join(MODES))
    add("--sandbox", help="isolation of workers: auto, default or strict")
    add("--no-compile", action="store_true", help="no torch.compile baseline")
    add("--budget", type=float, default=1500.0, help="seconds for all runs together")
    add("--output", type=Path, help="CSV, a line a run")
    asked = parser.parse_args()
    asked.config = "quick" if asked.quick else asked.config
    settings = config.load(
        asked.config,
        {
            "device": asked.device,
            "size": asked.size or ("auto" if asked.mse else "smoke"),
            "modes": asked.modes,
            "sandbox": asked.sandbox,
            "compile_baseline": () if asked.no_compile else None,
        },
    )
    plan = Plan(asked=asked, settings=settings, until=time.monotonic() + asked.budget)
    cuda = device.choose(asked.device).type == "cuda"
    with tempfile.TemporaryDirectory(prefix="throughput-") as name:
        if asked.mse:
            solution = "cuda" if cuda else "cpp"
            plan.pair(f"mse / {solution}", Path(name), 1, problem="mse", solution=solution)
            return
        for wanted in sorted(int(text) for text in asked.count.split(",")):
            folder, count = Path(name) / str(wanted), plan.affordable(wanted)
            if count < wanted:
                print(f"{wanted} solutions would take longer than the budget: {count}", flush=True)
            published.write(folder, count, cuda=cuda)
            places = {k: str(folder / f"{k[:-4]}s") for k in ("problem_dir", "solution_dir")}
            plan.pair("set", folder, count, **places)


if __name__ == "__main__":
    main()
