"""The shipped Triton solutions, without a GPU: interpreted they are right, and they compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from triton_bench import CASES, instance, made_ready

from harness.judge.reference import Reference

pytest.importorskip("triton")

HERE = Path(__file__).resolve().parent
SOLVED = sorted(p.parent.name for p in HERE.parent.glob("solutions/*/triton_kernels.py"))
INTERPRETED = [" ".join((problem, *case)) for problem in SOLVED for case in CASES]
REFUSED = [f"{problem} float64 refused" for problem in SOLVED]


def told(mode: str, folder: Path, **environment: str) -> dict[str, str]:
    """What `triton_bench` finds, in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE / "triton_bench.py"), mode, *SOLVED],
        env={**os.environ, "TRITON_CACHE_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return told("interpret", tmp_path_factory.mktemp("triton"), TRITON_INTERPRET="1")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return told("compile", tmp_path_factory.mktemp("triton"))


def test_there_are_triton_solutions_of_the_first_problems_and_of_ten_others() -> None:
    assert {"kl_div", "mse", "smooth_l1"} <= set(SOLVED)
    assert len(SOLVED) >= 13


@pytest.mark.parametrize("case", INTERPRETED)
def test_interpreted_it_is_right_in_both_directions(case: str, interpreted: dict[str, str]) -> None:
    assert interpreted[case] == ""


@pytest.mark.parametrize("case", REFUSED)
def test_float64_is_refused_by_name(case: str, interpreted: dict[str, str]) -> None:
    assert interpreted[case] == ""


@pytest.mark.parametrize("problem", SOLVED)
def test_its_kernels_compile_for_an_h100_with_wide_loads(
    problem: str, compiled: dict[str, str]
) -> None:
    if torch.version.cuda is None:
        pytest.skip("needs a CUDA build of torch")
    assert compiled[f"{problem} compiled"] == ""


@pytest.mark.gpu
@pytest.mark.parametrize("problem", SOLVED)
def test_it_gives_the_same_bits_every_time(problem: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    reference = Reference(instance(problem, "smoke", "float32", "cuda"), 1)
    player, trial = made_ready(problem, reference, "contiguous")
    first = player.play(trial).results[0].leaves()
    for _ in range(20):
        again = player.play(trial).results[0].leaves()
        assert all(torch.equal(again[name], tensor) for name, tensor in first.items())
