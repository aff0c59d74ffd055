"""What checking one solution costs: seconds of each step, and the most memory in use meanwhile.

    python -m benchmarks.check_cost --problem mse --solution cuda --output results/benchmarks/X.csv

Memory is all that is in use on the card beyond what was before, by judge and worker together,
looked at every 5 ms while outputs and gradients are checked. Beside it stands the larger of the
two training peaks, reference's and solution's: what both need one after the other. Seconds
include the solution's own calls. Without a GPU there are only the seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import threading
import time
from pathlib import Path

import pandas as pd
import torch

from harness import run
from harness.config import load
from harness.records import Row

PERIOD_S = 0.005


class Meter:
    """An observer that takes the time of each step, and memory during the checks."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []
        self.peak_mib = 0.0
        self._checking = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self, problem: str, solution: str, size: str) -> None: ...

    def row(self, row: Row) -> None:
        self.note("end")
        self._stop.set()

    def warn(self, text: str) -> None:
        print(text)

    def note(self, text: str) -> None:
        self.steps.append((text, time.monotonic()))
        self._checking = text.startswith("check ")
        if torch.cuda.is_available() and not self._thread.is_alive() and self._checking:
            self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(PERIOD_S):
            if self._checking:
                free, total = torch.cuda.mem_get_info()
                self.peak_mib = max(self.peak_mib, (total - free) / 2**20)

    def seconds(self) -> dict[str, float]:
        """Seconds of each step, by the text it was announced with."""
        found: dict[str, float] = {}
        for (text, began), (_, ended) in zip(self.steps, self.steps[1:], strict=False):
            found[text] = found.get(text, 0.0) + ended - began
        return found


def main() -> None:
    """Evaluate, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="mse")
    parser.add_argument("--solution", default="cuda")
    parser.add_argument("--size", default="auto")
    parser.add_argument("--output", type=Path, help="CSV of the summary")
    asked = parser.parse_args()
    settings = dataclasses.replace(
        load(None, {"size": asked.size}), modes=("forward_backward",), compile_baseline=()
    )
    scratch = Path("results/benchmarks/check_cost_rows.csv")
    scratch.parent.mkdir(parents=True, exist_ok=True)
    scratch.unlink(missing_ok=True)
    request = run.Request(
        settings=settings,
        problem=asked.problem,
        solution=asked.solution,
        output=scratch,
        fresh=True,
    )
    meter = Meter()
    (row,) = run.execute(request, meter)
    scratch.unlink(missing_ok=True)
    for text, seconds in meter.seconds().items():
        print(f"{seconds:8.2f} s  {text}")
    own, reference = row.memory, row.reference_memory
    peaks = [m.training_peak_mib for m in (own, reference) if m and m.training_peak_mib]
    apart = max(peaks, default=None)
    summary = {
        "device": row.environment.device_name,
        "problem": row.problem,
        "solution": row.solution,
        "size": row.size,
        "status": row.verdict.status.value,
        "check_s": row.check_s,
        "peak_mib": meter.peak_mib or None,
        "one_after_the_other_mib": apart,
        "ratio": meter.peak_mib / apart if apart and meter.peak_mib else None,
    }
    print(pd.Series(summary).to_string())
    if asked.output:
        pd.DataFrame([summary]).to_csv(asked.output, index=False)


if __name__ == "__main__":
    main()
