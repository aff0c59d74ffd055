"""Fixtures of the integration tests; what they are made of is in `support`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as run_eval.py does, before torch

import pytest
from support import WIRE, Bench

from harness.judge.process import toolchain
from harness.judge.process.forkserver import ForkServer
from harness.judge.process.sandbox import Worker

#: Files that take longest, which begin first: `make test` gives each of two cores a file at a time.
LONGEST = (
    "test_submissions.py",
    "test_evaluate.py",
    "test_headers.py",
    "test_solutions.py",
    "test_cli.py",
    "test_triton.py",
    "test_cluster.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(LONGEST)))


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(folder=tmp_path_factory.mktemp("bench"))


@pytest.fixture
def needs_nvcc() -> None:
    if problem := toolchain.cuda_problem(toolchain.find()):
        pytest.skip(problem)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    server = ForkServer({"PATH": "/usr/bin:/bin"})
    yield server
    server.close()


@pytest.fixture(params=["as a program", "forked"])
def fake_worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts a worker that runs a script of the test's in place of `harness.worker`.

    The script finds `descriptor`, and `receive()` and `send(body)` of the wire, without torch:
    it starts in a tenth of a second.
    """
    forked = request.param == "forked"
    server = request.getfixturevalue("fork_server") if forked else None
    started: list[Worker] = []

    def start(script: str, **environment: str) -> Worker:
        folder = tmp_path / f"worker{len(started)}"
        folder.mkdir()
        with mock.patch("harness.judge.process.launching._BOOTSTRAP", WIRE + script):
            worker = Worker(
                environment={"PATH": "/usr/bin:/bin", **environment},
                folder=folder,
                log=tmp_path / "logs" / f"{len(started)}.log",
                first={},
                server=server,
            )
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.end()
