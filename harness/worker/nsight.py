"""Nsight Compute's figures: a process of its own repeats what this worker was told, under `ncu`.

Covers: share of the peak memory and arithmetic throughput, and occupancy, of each kernel that one
call ran. Needs permission to read the counters, which a machine may not give (ERR_NVGPUCTRPERM).
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import ROOT
from harness.worker.faults import MachineFault
from harness.worker.provenance import bare_name

#: Metric of ncu (percent) -> what it is called here (a fraction).
METRICS = {
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory_share",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute_share",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
}
_REPLAY = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
    "from harness.worker import replay; replay.main(sys.argv[1])"
)

Figures = dict[str, dict[str, float]]  # kernel's bare name -> figure


def figures(ncu: str, orders: list[dict[str, Any]], folder: Path, timeout_s: float) -> Figures:
    """Run `orders`, the last of them under the profiler. Raises `MachineFault` where it cannot."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    told, log = folder / "replay.json", folder / "ncu.csv"
    told.write_text(json.dumps(orders))
    metrics = ",".join(METRICS)
    command = [
        *(ncu, "--csv", "--page", "raw", "--metrics", metrics, "--log-file", str(log)),
        *("--profile-from-start", "no", "--target-processes", "all"),
        *(sys.executable, "-I", "-c", _REPLAY, str(told)),
    ]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineFault(f"ncu could not be used: {error}") from error
    text = log.read_text(errors="replace") if log.exists() else ""
    if found := parse(text):
        return found
    said = [line for line in (text + ran.stdout + ran.stderr).splitlines() if "==ERROR==" in line]
    why = said[0].partition("==ERROR==")[2].strip() if said else f"it ended with {ran.returncode}"
    raise MachineFault(f"ncu has no figures: {why}")


def parse(text: str) -> Figures:
    """Figures of what `ncu --csv --page raw` wrote; of launches of one name, the mean."""
    start = text.find('"ID"')
    if start < 0:
        return {}
    seen: dict[str, dict[str, list[float]]] = {}
    for row in csv.DictReader(io.StringIO(text[start:])):
        for metric, name in METRICS.items():
            try:
                percent = float((row.get(metric) or "").replace(",", ""))
            except ValueError:  # the line of units, or a metric that this card lacks
                continue
            kernel = seen.setdefault(bare_name(row["Kernel Name"]), {})
            kernel.setdefault(name, []).append(percent / 100)
    return {
        kernel: {name: sum(values) / len(values) for name, values in one.items()}
        for kernel, one in seen.items()
    }
