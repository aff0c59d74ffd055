"""What checking one solution costs: seconds of each step, and the most memory in use meanwhile.

    python -m benchmarks.check_cost --problem mse --solution cuda --output results/benchmarks/X.csv

Memory is all that is in use on the card, by judge and worker together, looked at every 5 ms while
outputs and gradients are checked. Beside it stands the larger of the two training peaks,
reference's and solution's: what both need one after the other. As the checks fill memory that
nobody needs, where there is some, `--room 1.5` evaluates again with all of the card occupied
but 1.5 times those peaks, and says what became of that. Seconds include the solution's own
calls. Without a GPU there are only the seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from harness import run
from harness.config import load
from harness.records import Row

PERIOD_S = 0.005


class Meter(run.Silent):
    """An observer that takes the time of each step, and memory during the checks."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []
        self.peak_mib = 0.0
        self._checking = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

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
    parser.add_argument("--room", type=float, help="evaluate again in so many times the peaks")
    parser.add_argument("--output", type=Path, help="CSV of the summary")
    asked = parser.parse_args()
    meter, row = evaluate(asked, modes=("forward_backward",))
    for text, seconds in meter.seconds().items():
        print(f"{seconds:8.2f} s  {text}")
    summary = summarise(meter, row)
    apart = summary["one_after_the_other_mib"]
    if asked.room and apart and torch.cuda.is_available():
        torch.cuda.empty_cache()
        spare = torch.cuda.mem_get_info()[0] - int(asked.room * apart * 2**20)
        ballast = torch.empty(spare, dtype=torch.uint8, device="cuda")
        _, again = evaluate(asked, modes=())
        del ballast
        summary |= {"room": asked.room, "status_in_room": again.verdict.status.value}
        summary |= {"message_in_room": again.verdict.message, "check_s_in_room": again.check_s}
    print(pd.Series(summary).to_string())
    if asked.output:
        pd.DataFrame([summary]).to_csv(asked.output, index=False)


def evaluate(asked: argparse.Namespace, *, modes: tuple[str, ...]) -> tuple[Meter, Row]:
    """Judge the solution, without torch.compile; memory and kernels only beside times."""
    settings = dataclasses.replace(
        load(None, {"size": asked.size}),
        modes=modes,
        compile_baseline=(),
        measure_memory=bool(modes),
        profile=bool(modes),
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
    return meter, row


def summarise(meter: Meter, row: Row) -> dict[str, Any]:
    """The figures, by name."""
    memories = (row.memory, row.reference_memory)
    peaks = [m.training_peak_mib for m in memories if m and m.training_peak_mib]
    apart = max(peaks, default=None)
    return {
        "device": row.environment.device_name,
        "problem": row.problem,
        "solution": row.solution,
        "size": row.size,
        "status": row.verdict.status.value,
        "check_s": row.check_s,
        "peak_mib": meter.peak_mib or None,
        "one_after_the_other_mib": apart,
    }


if __name__ == "__main__":
    main()
