"""Fixtures of the integration tests; what they are made of is in `support`."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as run_eval.py does, before torch

import pytest
from support import WIRE, Bench, cuda_builds

from harness.judge import toolchain
from harness.judge.forkserver import ForkServer
from harness.judge.sandbox import Worker
from harness.records import Row


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(folder=tmp_path_factory.mktemp("bench"))


@dataclass(frozen=True, kw_only=True)
class Built:
    """What became of a CUDA solution, and the build cache that it is in."""

    row: Row
    cache: Path


Builds = tuple[Path, dict[Any, Future[Row]]]  # the folder, and rows by (problem, path)


@pytest.fixture(scope="session", autouse=True)
def builds(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Builds]:
    """Builds what selected tests ask for by `cuda_solution`, from the start and beside them."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    parameters = [test.callspec.params for test in tests if hasattr(test, "callspec")]
    jobs = {p["cuda_solution"] for p in parameters if "cuda_solution" in p}
    jobs = set() if shutil.which("nvcc") is None else jobs
    folder = tmp_path_factory.mktemp("cuda")
    with cuda_builds(folder, jobs) if jobs else contextlib.nullcontext({}) as rows:
        yield folder, rows


@pytest.fixture
def building(builds: Builds) -> Callable[[tuple[str, str]], Built]:
    """(problem, path of a CUDA solution) -> what became of its build, which is waited for."""
    folder, rows = builds
    return lambda job: Built(row=rows[job].result(), cache=folder / "cache")


@pytest.fixture(scope="session")
def quiet(builds: Builds) -> None:
    """Nothing is built any more: for what is timed, which a compiler beside it disturbs."""
    wait(builds[1].values())


@pytest.fixture
def cuda_solution(
    request: pytest.FixtureRequest, building: Callable[[tuple[str, str]], Built]
) -> Built:
    """(problem, path of a CUDA solution), as a parameter -> what became of its build."""
    if problem := toolchain.cuda_problem(toolchain.find()):
        pytest.skip(problem)
    return building(request.param)


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
        with mock.patch("harness.judge.sandbox._BOOTSTRAP", WIRE + script):
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
