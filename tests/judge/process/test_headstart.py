"""The server that workers are forked of starts before torch is imported, where it is of use."""

from __future__ import annotations

import subprocess
import sys
from unittest import mock

import pytest
from support import ROOT, TINY, Bench

from harness.config import Settings
from harness.judge.process import forkserver, headstart


def test_the_first_worker_uses_the_server_that_was_started_ahead(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forkserver, "_servers", {})
    headstart.take(Settings(sandbox="default"))
    (server,) = forkserver._servers.values()
    assert server is not None
    try:
        with bench.context(sandbox="default").worker("first", salt="first"):
            assert list(forkserver._servers.values()) == [server]
    finally:
        server.close()


@pytest.mark.parametrize("changes", [{"warm_workers": False}, {"isolation": "bubblewrap"}])
def test_no_server_is_started_where_no_worker_would_use_it(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    monkeypatch.setattr(forkserver, "_servers", {})
    found = changes.pop("isolation", "process")
    with mock.patch("harness.judge.process.isolation.choose", return_value=found):
        headstart.take(Settings(**changes))  # type: ignore[arg-type]
    assert forkserver._servers == {}


def test_the_command_line_imports_torch_only_when_it_evaluates() -> None:
    code = "import sys, harness.cli; print({'torch', 'scipy', 'pandas'} & set(sys.modules))"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "set()"


def test_what_every_evaluation_does_imports_nothing_that_takes_seconds() -> None:
    code = f"""
import sys
import torch
from harness.judge.checking import compare
from harness.judge.timing import limit
from harness.judge.reference import Reference
from harness.shared.problem import Instance
instance = Instance(source={TINY!r}, path="tiny.py", size="full", dtype=torch.float32,
                    device=torch.device("cpu"))
assert limit.count(Reference(instance, 1), differentiable=True).backward
compare.compare(torch.ones(3), torch.ones(3), root="output")
slow = ("torch._dynamo", "torch._inductor", "torch.distributed.tensor", "scipy.stats")
print([name for name in slow if name in sys.modules])
"""
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert said.stdout.strip() == "[]", said.stderr
