"""Workers of a fork server are as if started as programs, and what befalls the server is told."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import HONEST, TINY, WIRE, Bench, gone

from harness.judge.process import forkserver, launching
from harness.judge.process.forkserver import ForkServer
from harness.judge.process.sandbox import Worker, WorkerCrash, WorkerFault
from harness.records import Status

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
OPEN = {"sandbox": "default"}  # with a jail, workers start as programs

StartOn = Callable[..., Worker]


@pytest.fixture
def start_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartOn]:
    """Starts a script as a worker of a server."""
    started: list[Worker] = []

    def start(server: ForkServer, script: str) -> Worker:
        monkeypatch.setattr(launching, "_BOOTSTRAP", WIRE + script)
        log = tmp_path / "log"
        worker = Worker(environment=ENVIRONMENT, folder=tmp_path, log=log, first={}, server=server)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.end()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    """A server of the test's own, which workers are shared by."""
    server = ForkServer(ENVIRONMENT, preloaded=())
    monkeypatch.setattr(forkserver, "_servers", {(): server})
    yield server
    server.close()


def ask(worker: Worker) -> dict[str, Any]:
    return dict(worker.ask("anything", timeout_s=20).body["answer"])


def facts_of(bench: Bench, code: str, **changes: Any) -> Any:
    """What a real worker says: `code` prints JSON by raising it."""
    with bench.context(**OPEN, **changes).worker("facts", salt="facts") as worker:
        source = f"import json\n{code}\nraise RuntimeError(json.dumps(facts))"
        with pytest.raises(WorkerFault) as caught:
            worker.ask("build", timeout_s=60, source=source, file_name="facts.py")
    text = caught.value.text
    return json.loads(text[text.rindex("RuntimeError: ") + len("RuntimeError: ") :])


def test_what_has_killed_its_warden_is_ended_too(server: ForkServer, start_on: StartOn) -> None:
    child = "subprocess.Popen(['sleep', '600'], start_new_session=True).pid"
    worker = start_on(
        server,
        f"ctypes.CDLL(None).prctl(1, 0)\nchild = {child}\n"
        "answer(pids=[os.getpid(), child])\nos.kill(os.getppid(), signal.SIGKILL)\n"
        "time.sleep(600)",
    )
    other = start_on(server, "answer()\nanswer()\nreceive()")
    ask(other)
    assert all(gone(pid) for pid in ask(worker)["pids"])
    worker.end()
    ask(other)  # and no other


# --- as if started as a program -------------------------------------------------------------------


def test_a_forked_worker_is_what_a_program_is(bench: Bench) -> None:
    code = """
import os, resource, signal, sys, tempfile, torch
facts = dict(
    argv=sys.argv,
    main=sys.modules["__main__"].__name__,
    environment=dict(os.environ),
    umask=os.umask(0o22),
    mask=[int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    handlers=[str(signal.getsignal(number)) for number in (2, 13, 15, 17)],
    files=resource.getrlimit(resource.RLIMIT_FSIZE),
    stdin=os.readlink("/proc/self/fd/0"),
    temporary=tempfile.gettempdir(),
    cores=len(os.sched_getaffinity(0)),
    threads=torch.get_num_threads(),
    cuda=[torch.cuda.is_initialized(), torch.cuda._is_in_bad_fork()],
    asked=torch.cuda.is_available.__name__,
)
"""
    both = [facts_of(bench, code, warm_workers=warm) for warm in (False, True)]
    for facts in both:
        home = facts["environment"].pop("HOME")
        assert facts.pop("temporary") == facts["environment"].pop("TMPDIR") == home
        facts["environment"] = {
            name: text.replace(home, "") for name, text in facts["environment"].items()
        }
        facts["argv"].pop()  # the number of the channel
    assert both[0] == both[1]
    assert both[1]["cuda"] == [False, False]


def test_forked_workers_draw_other_numbers_and_compute_in_threads(bench: Bench) -> None:
    code = (
        "import random, numpy, torch\n"
        "facts = [random.random(), numpy.random.rand(), torch.rand(()).item()]\n"
        "torch.randn(512, 512) @ torch.randn(512, 512)"
    )
    one, other = facts_of(bench, code), facts_of(bench, code)
    assert all(a != b for a, b in zip(one, other, strict=True))


def test_a_solution_passes_in_a_forked_worker(bench: Bench) -> None:
    row = bench.judge(HONEST, TINY, **OPEN)
    assert row.verdict.status is Status.PASS, row.verdict.message
    assert row.isolation == "process"


def test_a_server_is_shared_by_workers_whose_environments_differ_in_what_is_read_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forkserver, "_servers", {})
    monkeypatch.setattr(forkserver, "ForkServer", lambda environment: object())
    first = forkserver.shared({"HOME": "/a", "CUDA_VISIBLE_DEVICES": "0", "CXX": "g++"})
    assert forkserver.shared({"HOME": "/b", "MAX_JOBS": "3", "CXX": "g++"}) is first
    assert forkserver.shared({"HOME": "/a", "CXX": "clang++"}) is not first


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("warm", [False, True], ids=["as a program", "forked"])
def test_a_worker_has_the_cores_of_the_thread_that_asks(bench: Bench, warm: bool) -> None:
    code = "import os, torch\nfacts = [sorted(os.sched_getaffinity(0)), torch.get_num_threads()]"
    before = os.sched_getaffinity(0)
    assert facts_of(bench, code, warm_workers=warm)[0] == sorted(before)
    servers = len(forkserver._servers)
    os.sched_setaffinity(0, {max(before)})
    try:
        assert facts_of(bench, code, warm_workers=warm) == [[max(before)], 1]
    finally:
        os.sched_setaffinity(0, before)
    assert len(forkserver._servers) == servers


# --- what befalls the server ----------------------------------------------------------------------


def kill(server: ForkServer) -> None:
    server._process.kill()
    server._process.wait()


def stop(server: ForkServer) -> None:
    server._process.send_signal(signal.SIGSTOP)


@pytest.mark.parametrize("misfortune", [kill, stop])
def test_without_its_server_a_worker_starts_as_a_program_with_one_warning(
    server: ForkServer,
    start_on: StartOn,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    misfortune: Callable[[ForkServer], None],
) -> None:
    script = "answer(parent=os.getppid())\nreceive()"  # lives on, and so does its warden
    forked = start_on(server, script)
    assert psutil.Process(ask(forked)["parent"]).ppid() == server._process.pid
    forked.end()
    monkeypatch.setattr(server, "_within_s", 0.3)
    misfortune(server)
    with caplog.at_level(logging.WARNING, "harness"):
        worker = start_on(server, script)
        assert psutil.Process(ask(worker)["parent"]).ppid() == os.getpid()
        assert forkserver.shared(ENVIRONMENT | {"X": "y"}) is not None  # of other servers
    assert [r.getMessage().split(":")[0] for r in caplog.records] == [
        "workers start slowly, each as a program"
    ]
    assert forkserver._servers[()] is None


def test_a_server_that_cannot_import_says_why(
    start_on: StartOn, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ForkServer(ENVIRONMENT, preloaded=("no_such_module",))
    monkeypatch.setattr(forkserver, "_servers", {(): broken})
    with caplog.at_level(logging.WARNING, "harness"):
        assert ask(start_on(broken, "answer()")) == {}
    assert "No module named 'no_such_module'" in caplog.text


def test_workers_are_gone_with_their_server(server: ForkServer, start_on: StartOn) -> None:
    worker = start_on(
        server,
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "answer(pids=[os.getpid(), os.getppid(), child.pid])\nreceive()",
    )
    pids = ask(worker)["pids"]
    kill(server)
    with pytest.raises(WorkerCrash, match="SIGKILL"):
        ask(worker)
    assert all(gone(pid) for pid in pids)


def test_workers_of_one_server_live_side_by_side_and_see_nothing_of_each_other(
    server: ForkServer, start_on: StartOn
) -> None:
    script = (
        "while True: answer(pid=os.getpid(), files=len(os.listdir('/proc/self/fd')),"
        " children=open(f'/proc/{os.getppid()}/task/{os.getppid()}/children').read())"
    )
    workers = [start_on(server, script) for _ in range(3)]
    facts = [ask(worker) for worker in workers]
    assert [fact["children"].strip() for fact in facts] == [str(fact["pid"]) for fact in facts]
    assert {fact["files"] for fact in facts} == {5}  # standard, channel, the listing itself
    workers[1].end()
    assert gone(facts[1]["pid"])
    assert ask(workers[0])["pid"] == facts[0]["pid"]
    assert ask(workers[2])["pid"] == facts[2]["pid"]


def test_closing_a_server_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    server = ForkServer(ENVIRONMENT, preloaded=())
    folder = server._folder
    server.close()
    assert gone(server._process.pid)
    assert not folder.exists()
