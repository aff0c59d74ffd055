"""Whether ModelNew.forward takes what the reference's takes, as inputs are handed over; and what
precedes a solution's first line."""

from __future__ import annotations

import ctypes
import os
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness.shared import mixing
from harness.shared.problem import Instance
from harness.worker.building import Builder
from harness.worker.faults import ContractFault
from harness.worker.session import Session, _check_arguments

SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, {takes}):
        return x


def get_inputs():
    return [torch.ones(2)]
"""


def check(reference: str, solution: str) -> None:
    instance = Instance(
        source=SOURCE.format(takes=reference),
        path="p.py",
        size="full",
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    namespace: dict[str, type[torch.nn.Module]] = {}
    exec(SOURCE.format(takes=solution), namespace)
    _check_arguments(namespace["Model"](), instance)


@pytest.mark.parametrize(
    ("reference", "solution"),
    [
        ("x, y", "x, y"),
        ("x, y", "a, b"),
        ("x, y", "x, y, z=1"),
        ("x, y", "*inputs"),
        ("x, scale=2.0", "x"),  # inputs may never give it
        ("x, scale=2.0", "x, scale=2.0"),
        ("x, scale=2.0", "x, scale"),
        ("x, *, mode='a'", "x, *, mode='a'"),
        ("x, *, mode='a'", "x"),
        ("x, *, mode='a'", "x, mode='a'"),
        ("x, *rest, **more", "x"),
    ],
)
def test_what_takes_the_references_inputs_is_taken(reference: str, solution: str) -> None:
    check(reference, solution)


@pytest.mark.parametrize(
    ("reference", "solution"),
    [
        ("x, y", "x"),
        ("x, y", "x, y, z"),
        ("x, y", "x, *, y"),
        ("x, scale=2.0", "x, scale, shift"),
        ("x, *, mode='a'", "x, *, mode"),
    ],
)
def test_what_cannot_take_them_is_told(reference: str, solution: str) -> None:
    with pytest.raises(ContractFault, match=r"ModelNew\.forward does not take \(x"):
        check(reference, solution)


@pytest.mark.parametrize(("visible", "read"), [("GPU-1", ["GPU-1"]), ("", [])])
def test_the_driver_has_read_which_devices_it_may_show_before_a_solution_changes_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, read: list[str]
) -> None:
    found: list[str] = []

    def start(flags: int) -> int:
        found.append(os.environ["CUDA_VISIBLE_DEVICES"])
        return flags

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuInit=start))
    source = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\nModelNew = object\n"
    session = Session(folder=tmp_path, builder=Builder(cache=tmp_path, salt="s", lean=True))
    session.build({"source": source, "file_name": "own.py"})
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert found == read


def test_what_the_harness_keeps_for_timing_is_gone_before_memory_is_measured(
    tmp_path: Path,
) -> None:
    session = Session(folder=tmp_path, builder=Builder(cache=tmp_path, salt="s", lean=True))
    table = weakref.ref(mixing._factors(torch.float32, torch.device("cpu"), 8))
    places = weakref.ref(mixing._places(5000, 1, torch.device("cpu")))
    assert table() is not None
    assert places() is not None
    session.forget({})
    assert table() is None
    assert places() is None
