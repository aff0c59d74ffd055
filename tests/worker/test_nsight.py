"""Nsight Compute: what it writes is read, and why it cannot be used is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.worker import nsight
from harness.worker.faults import MachineFault

MEMORY, COMPUTE, OCCUPANCY = nsight.METRICS
WRITTEN = f"""==PROF== Connected to process 7
==PROF== Profiling "scale" - 0: 0%....100% - 1 pass
"ID","Process ID","Kernel Name","Context","{MEMORY}","{COMPUTE}","{OCCUPANCY}"
"","","","","%","%","%"
"0","7","void <unnamed>::scale<float>(float *, int)","1","80.0","10.0","50"
"1","7","void <unnamed>::scale<float>(float *, int)","1","90.0","20.0","70"
"2","7","other","1","1,000.0","n/a","5"
"""


def ncu(folder: Path, script: str) -> str:
    """A program that stands in for ncu; it finds where to write in $log."""
    path = folder / "ncu"
    find = 'while [ $# -gt 0 ]; do [ "$1" = --log-file ] && log=$2; shift; done\n'
    path.write_text(f"#!/bin/sh\n{find}{script}\n")
    path.chmod(0o755)
    return str(path)


def test_figures_are_fractions_by_name_and_launches_are_averaged() -> None:
    found = nsight.parse(WRITTEN)
    assert found["scale"] == {
        "memory_share": pytest.approx(0.85),
        "compute_share": pytest.approx(0.15),
        "occupancy": pytest.approx(0.6),
    }
    assert found["other"] == {"memory_share": 10.0, "occupancy": 0.05}
    assert nsight.parse("==ERROR== nothing") == {}


def test_what_ncu_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / "written").write_text(WRITTEN)
    program = ncu(tmp_path, f"cp {tmp_path}/written $log")
    assert set(nsight.figures(program, [{}], tmp_path, 20)) == {"scale", "other"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - no permission' > $log; exit 1", "ERR_NVGPUCTRPERM"),
        ("echo '==ERROR== no kernels' >&2", "no kernels"),
        ("exit 3", "it ended with 3"),
        ("exec sleep 20", "timed out"),
    ],
)
def test_why_it_cannot_be_used_is_said(tmp_path: Path, script: str, why: str) -> None:
    with pytest.raises(MachineFault, match=why):
        nsight.figures(ncu(tmp_path, script), [{}], tmp_path, 1.0)


def test_a_program_that_is_none_is_no_crash(tmp_path: Path) -> None:
    with pytest.raises(MachineFault, match="could not be used"):
        nsight.figures(str(tmp_path / "none"), [{}], tmp_path, 1.0)
