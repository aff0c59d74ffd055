"""From Python: what a program wrote is judged as a text, never taken for a name."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from examples import make, write
from support import ROOT

import harness
from harness import run
from harness.records import Solution, Status

SOURCE = "class ModelNew:\n    pass\n"


def asked(text: str) -> Solution:
    """What is judged for a text, with the judging itself left out."""
    found: list[Solution] = []

    def execute(request: run.Request, *_: Any) -> list[Any]:
        found.extend(solution for job in run.find(request) for solution in job.solutions)
        return [make(problem="mse")]

    with mock.patch.object(run, "execute", execute), harness.Judge() as judge:
        judge.evaluate_text("mse", text)
    (solution,) = found
    return solution


@pytest.mark.parametrize("text", [SOURCE, f"Here it is:\n```python\n{SOURCE}```\nFast!"])
def test_a_text_is_a_source_or_an_answer_that_holds_it(text: str) -> None:
    solution = asked(text)
    assert (solution.fault, solution.source.strip()) == (None, SOURCE.strip())
    assert not Path(solution.path).exists()


@pytest.mark.parametrize(
    "text", ["cuda", "cpp", str(ROOT / "solutions/mse/cuda.py"), "", "../x", "\ud800", "\0"]
)
def test_a_text_that_is_a_name_or_a_path_is_no_code(text: str) -> None:
    solution = asked(text)
    assert solution.fault
    assert "ModelNew" not in solution.source


def test_one_file_is_named_as_such(tmp_path: Path) -> None:
    (path,) = write(tmp_path, {"one": [make()]})
    for files in (path, str(path), [path], (str(path),)):
        assert [side.file for side in harness.compare(files).sides] == ["one.csv"]


def test_other_texts_have_other_names() -> None:
    names = {asked(text).name for text in (SOURCE, SOURCE, f"{SOURCE}\n", "cuda")}
    assert len(names) == 3
    assert all(name.startswith("answer_") for name in names)


def test_threads_take_turns() -> None:
    """Two references at once draw from one generator: neither gave the same twice."""
    both = threading.Barrier(2)

    def execute(*_: Any) -> list[Any]:
        try:
            both.wait(timeout=0.2)
        except threading.BrokenBarrierError:
            return [make()]
        raise AssertionError("two at once")

    def ask(_: int) -> None:
        with harness.Judge() as judge:
            judge.evaluate("mse", "cpp")

    with mock.patch.object(run, "execute", execute), ThreadPoolExecutor(2) as pool:
        list(pool.map(ask, range(2)))


SWITCHES = """import torch

class Model(torch.nn.Module):
    def forward(self, x, w):
        told = (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark, x.dtype.itemsize)
        return x @ w + sum(told)

def get_inputs():
    return [torch.randn(8, 16), torch.randn(16, 8)]
"""


@pytest.mark.parametrize("allow_tf32", [False, True])
def test_what_a_program_has_set_in_torch_changes_no_verdict(
    allow_tf32: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, solution = tmp_path / "told.py", tmp_path / "same.py"
    problem.write_text(SWITCHES)
    solution.write_text(SWITCHES.replace("class Model(", "class ModelNew("))
    settings = harness.Settings(device="cpu", modes=(), profile=False, allow_tf32=allow_tf32)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not allow_tf32)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        with torch.autocast("cpu", torch.bfloat16):
            row = harness.evaluate(problem, solution, settings, output=tmp_path / "rows.csv")
            assert torch.is_autocast_enabled("cpu")
        left = torch.get_default_dtype(), torch.get_default_device().type
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert row.verdict.status is Status.PASS, row.verdict
    assert left == (torch.float64, "meta")
    assert torch.backends.cudnn.allow_tf32 is not allow_tf32
