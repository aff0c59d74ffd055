"""Fixtures of the integration tests; what they are made of is in `support`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from support import WIRE, Bench

from harness.judge.sandbox import Worker


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(folder=tmp_path_factory.mktemp("bench"))


@pytest.fixture
def fake_worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts a worker that runs a script of the test's in place of `harness.worker`.

    The script finds `descriptor`, and `receive()` and `send(body)` of the wire, without torch:
    it starts in a tenth of a second.
    """
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
            )
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.end()
