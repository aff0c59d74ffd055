"""A worker answers, dies, hangs, lies or hides: the judge is told which, and nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import psutil
import pytest
from support import WIRE, Bench, await_file, gone

from harness.judge.process import sandbox
from harness.judge.process.sandbox import (
    Worker,
    WorkerCrash,
    WorkerFault,
    WorkerLied,
    WorkerTimeout,
)
from harness.shared.channel import Channel, Message

Start = Callable[..., Worker]
OPEN = {"sandbox": "default"}  # with a jail, workers start as programs
BOTH_WAYS = pytest.mark.parametrize("warm", [False, True], ids=["as a program", "forked"])
SLEEPER = "subprocess.Popen(['sleep', '600']{})"


def ask(worker: Worker, timeout_s: float = 20.0) -> dict[str, object]:
    return dict(worker.ask("anything", timeout_s=timeout_s).body["answer"])


# --- answers ------------------------------------------------------------------------------------


def test_an_answer_comes_back_with_the_order_given(fake_worker: Start) -> None:
    worker = fake_worker(
        "order = receive()\nsend({'nonce': order['nonce'], 'answer': {'got': order}})"
    )
    message = worker.ask("look", timeout_s=20, at=[1, "two"])
    order = message.body["answer"]["got"]
    assert (order["order"], order["at"]) == ("look", [1, "two"])


def test_every_order_has_a_nonce_of_its_own(fake_worker: Start) -> None:
    worker = fake_worker("while True: answer(pid=os.getpid())\n")
    assert ask(worker) == ask(worker)


def test_a_fault_carries_its_kind_message_text_and_builds(fake_worker: Start) -> None:
    fault = {"kind": "compile", "message": "m", "text": "log", "builds": [{"name": "b"}]}
    worker = fake_worker(f"send({{'nonce': receive()['nonce'], 'fault': {fault!r}}})")
    with pytest.raises(WorkerFault, match="m") as caught:
        ask(worker)
    assert (caught.value.kind, caught.value.text) == ("compile", "log")
    assert caught.value.builds == [{"name": "b"}]


@pytest.mark.parametrize(
    "lie",
    [
        "receive(); send({'nonce': 'forged', 'answer': {}})",
        "receive(); send({'answer': {}})",
        "send({'nonce': 'guessed before the order', 'answer': {}})",
        "send({'nonce': receive()['nonce']})",
        "send({'nonce': receive()['nonce'], 'answer': 'yes'})",
        "send({'nonce': receive()['nonce'], 'answer': None})",
        "send({'nonce': receive()['nonce'], 'fault': 'yes'})",
        "send({'nonce': receive()['nonce'], 'fault': None})",
        "send({'nonce': receive()['nonce'], 'fault': [1]})",
        "receive(); wire.sendall(b'no message at all, but long enough')",
        "receive(); wire.sendall(struct.pack('<Q', 4) + b'null')",
        "receive(); wire.sendall(struct.pack('<Q', 1 << 60))",
    ],
)
def test_what_is_no_answer_to_the_order_is_a_lie(fake_worker: Start, lie: str) -> None:
    worker = fake_worker(lie + "\ntime.sleep(600)")
    with pytest.raises(WorkerLied):
        ask(worker)


def test_an_old_answer_sent_again_is_a_lie(fake_worker: Start) -> None:
    worker = fake_worker(
        "nonce = receive()['nonce']\nwhile True:\n"
        "    send({'nonce': nonce, 'answer': {}})\n    receive()"
    )
    ask(worker)
    with pytest.raises(WorkerLied):
        ask(worker)


def test_tensors_that_were_not_asked_for_are_a_lie(fake_worker: Start) -> None:
    worker = fake_worker(
        "nonce = receive()['nonce']\n"
        "spec = {'dtype': 'uint8', 'shape': [4], 'device': 'cpu'}\n"
        "send({'nonce': nonce, 'answer': {}}, {'t': {'tensor': 0}}, [spec])\n"
        "wire.sendall(bytes(4))\ntime.sleep(600)"
    )
    with pytest.raises(WorkerLied, match="over the 0 allowed"):
        ask(worker)


@pytest.mark.parametrize(
    ("ipc", "jailed", "shared"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_memory_is_shared_only_where_that_was_asked_for(
    fake_worker: Start, monkeypatch: pytest.MonkeyPatch, ipc: bool, jailed: bool, shared: bool
) -> None:
    worker = fake_worker("order = receive()\nsend({'nonce': order['nonce'], 'answer': order})")
    monkeypatch.setattr(worker, "_jailed", jailed)
    with mock.patch.object(Channel, "receive", autospec=True, side_effect=Channel.receive) as read:
        message = worker.ask("look", timeout_s=20, max_tensor_bytes=1, ipc=ipc)
    assert message.body["answer"]["ipc"] is read.call_args.kwargs["shared"] is shared


@pytest.mark.parametrize("said", ["'nonce': 'forged', 'answer': {}", "'nonce': n, 'fault': {}"])
def test_what_came_with_no_answer_is_closed(fake_worker: Start, said: str) -> None:
    worker = fake_worker(f"n = receive()['nonce']; send({{{said}}})")
    with mock.patch.object(Message, "close") as close, pytest.raises((WorkerLied, WorkerFault)):
        ask(worker)
    close.assert_called_once_with()


# --- deaths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("death", "wanted"),
    [
        ("os.abort()", "SIGABRT"),
        ("ctypes.string_at(0)", "SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL.*memory"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM"),
        ("os.kill(os.getpid(), signal.SIGFPE)", "SIGFPE"),
        ("os.kill(os.getpid(), 40)", "signal 40"),
        ("os._exit(0)", "status 0"),
        ("os._exit(7)", "status 7"),
    ],
)
def test_a_death_is_a_crash_that_says_of_what(fake_worker: Start, death: str, wanted: str) -> None:
    worker = fake_worker(f"receive()\n{death}")
    with pytest.raises(WorkerCrash, match=wanted):
        ask(worker)


def test_a_death_before_the_order_is_a_crash(fake_worker: Start) -> None:
    worker = fake_worker("os._exit(3)")
    worker._process.wait(timeout=20)
    with pytest.raises(WorkerCrash, match="status 3"):
        ask(worker)


def test_a_death_in_the_middle_of_an_answer_is_a_crash(fake_worker: Start) -> None:
    worker = fake_worker("receive(); wire.sendall(struct.pack('<Q', 100) + b'{'); os.abort()")
    with pytest.raises(WorkerCrash, match="SIGABRT"):
        ask(worker)


def test_no_core_file_is_written(fake_worker: Start, tmp_path: Path) -> None:
    worker = fake_worker("import resource\nanswer(limit=resource.getrlimit(resource.RLIMIT_CORE))")
    assert ask(worker)["limit"] == [0, 0]


def test_an_endless_loop_is_a_timeout_and_the_process_is_gone(fake_worker: Start) -> None:
    worker = fake_worker("answer(pid=os.getpid())\nreceive()\nwhile True: pass")
    pid = ask(worker)["pid"]
    with pytest.raises(WorkerTimeout, match=r"no answer within 0\.2 s"):
        ask(worker, timeout_s=0.2)
    assert gone(int(str(pid)))


def test_a_loop_that_ignores_every_signal_is_ended_all_the_same(fake_worker: Start) -> None:
    worker = fake_worker(
        "for n in range(1, 32):\n    if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\n"
        "answer(pid=os.getpid())\nwhile True: time.sleep(1)"
    )
    pid = int(str(ask(worker)["pid"]))
    worker.end()
    assert gone(pid)


def test_ending_twice_is_ending_once(fake_worker: Start) -> None:
    worker = fake_worker("receive()")
    worker.end()
    worker.end()


# --- what a solution leaves behind --------------------------------------------------------------


@pytest.mark.parametrize(
    "start",
    [
        SLEEPER.format(""),
        SLEEPER.format(", start_new_session=True"),
        SLEEPER.format(", process_group=0") if sys.version_info >= (3, 11) else SLEEPER.format(""),
    ],
    ids=["child", "own session", "own group"],
)
@pytest.mark.parametrize("end", ["by the judge", "by itself", "by a crash"])
def test_a_background_process_is_gone_with_the_worker(
    fake_worker: Start, start: str, end: str
) -> None:
    last = {"by the judge": "receive()", "by itself": "os._exit(0)", "by a crash": "os.abort()"}
    worker = fake_worker(f"answer(child={start}.pid)\nreceive()\n{last[end]}")
    child = int(str(ask(worker)["child"]))
    assert psutil.pid_exists(child)
    if end != "by the judge":
        with pytest.raises(WorkerCrash):
            ask(worker)
    worker.end()
    assert gone(child)


def test_a_daemon_of_a_daemon_in_a_session_of_its_own_is_gone_with_the_worker(
    fake_worker: Start, tmp_path: Path
) -> None:
    note = tmp_path / "daemon"
    worker = fake_worker(
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        wire.close()\n"
        "        for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
        f"        open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "answer()\nreceive()"
    )
    ask(worker)
    daemon = int(await_file(note))
    assert psutil.pid_exists(daemon)
    worker.end()
    assert gone(daemon)


def test_processes_that_keep_forking_are_gone_with_the_worker(
    fake_worker: Start, tmp_path: Path
) -> None:
    """Each process starts its successor and ends, so no list of processes holds for long."""
    note = tmp_path / "relay"
    worker = fake_worker(
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    wire.close()\n"
        "    while True:\n"
        f"        open({str(note)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "        time.sleep(0.002)\n"
        "        if os.fork(): os._exit(0)\n"
        "answer()\nreceive()"
    )
    ask(worker)
    await_file(note)
    worker.end()
    before = note.read_text()
    time.sleep(0.3)
    assert note.read_text() == before
    assert gone(int(before.splitlines()[-1]))


def test_a_worker_that_stops_its_warden_is_ended_by_the_judge(
    fake_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "END_S", 0.5)
    worker = fake_worker(
        f"child = {SLEEPER.format(', start_new_session=True')}.pid\n"
        "os.kill(os.getppid(), signal.SIGSTOP)\nanswer(pid=os.getpid(), child=child)\nreceive()"
    )
    facts = ask(worker)
    worker.end()
    assert gone(int(str(facts["pid"])))
    assert gone(int(str(facts["child"])))


@pytest.mark.parametrize("idle", ["time.sleep(600)", "while True: pass"])
def test_whoever_starts_nothing_is_not_waited_for_as_a_build_is(
    fake_worker: Start, idle: str
) -> None:
    worker = fake_worker(f"answer(pid=os.getpid())\nreceive()\n{idle}")
    pid = int(str(ask(worker)["pid"]))
    with pytest.raises(WorkerTimeout, match=r"within 0.4 s in which no compiler ran"):
        worker.ask("build", timeout_s=60, alone_s=0.4)
    assert gone(pid)


@pytest.mark.parametrize(
    "build",
    [
        "subprocess.run(['sh', '-c', 'sleep 1.2 & wait'])",  # as ninja's compilers
        "[subprocess.run(['sleep', '0.3']) or time.sleep(0.05) for _ in range(4)]",
    ],
)
def test_a_build_may_take_as_long_as_it_runs(fake_worker: Start, build: str) -> None:
    worker = fake_worker(
        f"import subprocess\nanswer()\norder = receive()\n{build}\n"
        "send({'nonce': order['nonce'], 'answer': {}})"
    )
    ask(worker)
    worker.ask("build", timeout_s=60, alone_s=0.8)


def test_a_build_has_a_deadline_and_a_crash_is_one_at_once(fake_worker: Start) -> None:
    worker = fake_worker("answer()\nreceive()\ntime.sleep(600)")
    ask(worker)
    with pytest.raises(WorkerTimeout, match=r"no answer within 0.5 s$"):
        worker.ask("build", timeout_s=0.5, alone_s=30)
    worker = fake_worker("answer()\nreceive()\nos.kill(os.getpid(), 11)")
    ask(worker)
    with pytest.raises(WorkerCrash, match="SIGSEGV"):
        worker.ask("build", timeout_s=60, alone_s=30)


def test_without_its_warden_nothing_is_known_of_a_worker(fake_worker: Start) -> None:
    worker = fake_worker(
        "ctypes.CDLL(None).prctl(1, 0)\n"  # not to end with it
        "warden = os.getppid()\nanswer(pid=os.getpid(), warden=warden)\n"
        "os.kill(warden, signal.SIGKILL)\nreceive()\ntime.sleep(600)"
    )
    facts = ask(worker)
    pid = int(str(facts["pid"]))
    assert gone(int(str(facts["warden"])))
    try:
        for look in (worker.pids, worker.cpu_s, worker.usage):
            with pytest.raises(WorkerCrash, match="was ended"):
                look()
        worker.end()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_processor_time_is_not_taken_back(fake_worker: Start) -> None:
    # The child of a child: when it has ended, its time is the warden's.
    worker = fake_worker(
        "gate, opens = os.pipe()\nburnt, tells = os.pipe()\n"
        "if (child := os.fork()) == 0:\n"
        "    if os.fork() == 0:\n"
        "        os.close(opens)\n"
        "        while time.process_time() < 0.3: pass\n"
        "        os.write(tells, b'x')\n"
        "        os.read(gate, 1)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\nos.read(burnt, 1)\nanswer()\n"
        "os.close(opens)\ntime.sleep(0.2)\nanswer()\nreceive()"
    )
    ask(worker)
    before_s = worker.cpu_s()
    assert before_s >= 0.25
    ask(worker)
    assert len(worker.pids()) == 1
    assert worker.cpu_s() >= before_s


def test_a_folder_goes_however_deep_it_is() -> None:
    with sandbox.private_folder() as folder:
        here = os.getcwd()
        try:
            os.chdir(folder)
            for _ in range(1100):
                os.mkdir("d")
                os.chdir("d")
        finally:
            os.chdir(here)
    assert not folder.exists()


JUDGE = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from harness.judge.process import launching, sandbox
from harness.judge.process.forkserver import ForkServer
launching._BOOTSTRAP = {bootstrap!r}
folder = Path({folder!r})
environment = {{"PATH": "/usr/bin:/bin"}}
server = ForkServer(environment, preloaded=()) if {forked} else None
worker = sandbox.Worker(environment=environment, folder=folder,
                        log=folder / "log", first={{}}, server=server)
print(worker.ask("pids", timeout_s=20).body["answer"], flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("forked", [False, True], ids=["as a program", "forked"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_and_its_children_never_outlive_the_judge(
    tmp_path: Path, number: int, forked: bool
) -> None:
    child = SLEEPER.format(", start_new_session=True")
    script = JUDGE.format(
        root=str(Path(sandbox.__file__).parents[3]),
        bootstrap=f"{WIRE}\nanswer(pids=[os.getpid(), os.getppid(), {child}.pid])\nreceive()",
        folder=str(tmp_path),
        forked=forked,
    )
    judge = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert judge.stdout is not None
    pids = [int(n) for n in re.findall(r"\d+", judge.stdout.readline())]
    assert len(pids) == 3
    assert all(psutil.pid_exists(pid) for pid in pids)
    judge.send_signal(number)
    judge.wait(timeout=20)
    judge.stdout.close()
    assert all(gone(pid) for pid in pids)


# --- what a worker has --------------------------------------------------------------------------


def test_a_worker_has_no_descriptor_but_its_channel_and_no_input(
    fake_worker: Start, tmp_path: Path
) -> None:
    secret = (tmp_path / "secret").open("w")
    os.set_inheritable(secret.fileno(), True)
    worker = fake_worker(
        "fds = {n: os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')\n"
        "       if os.path.exists(f'/proc/self/fd/{n}') or n == str(descriptor)}\n"
        "answer(fds=fds, descriptor=descriptor, stdin=sys.stdin.read())"
    )
    facts = ask(worker)
    secret.close()
    fds = dict(facts["fds"])  # type: ignore[call-overload]
    assert set(fds) == {"0", "1", "2", str(facts["descriptor"])}
    assert fds["0"] == "/dev/null"
    assert fds[str(facts["descriptor"])].startswith("socket:")
    assert facts["stdin"] == ""


def test_what_a_worker_prints_goes_to_its_log_and_nowhere_else(
    fake_worker: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    worker = fake_worker(
        "print('to stdout', flush=True)\nos.system('echo to stderr >&2')\nanswer()"
    )
    ask(worker)
    worker.end()
    assert (tmp_path / "logs" / "0.log").read_text() == "to stdout\nto stderr\n"
    assert capfd.readouterr() == ("", "")


@BOTH_WAYS
def test_a_real_worker_has_a_clean_environment_a_private_folder_and_a_session(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, warm: bool
) -> None:
    for name in ("LD_PRELOAD_X", "PYTHONPATH", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "the caller's")
    facts = (
        "import json, os, sys, shutil\n"
        "raise RuntimeError(json.dumps([dict(os.environ), os.getcwd(), os.getsid(0), os.getpid(),"
        " sys.path, shutil.which('ninja'), sys.flags.isolated]))"
    )
    context = bench.context(**OPEN, warm_workers=warm)
    with context.worker("facts", salt="facts") as worker:
        with pytest.raises(WorkerFault) as caught:
            worker.ask("build", timeout_s=60, source=facts, file_name="facts.py")
        text = caught.value.text
    environment, folder, session, pid, path, ninja, isolated = json.loads(
        text[text.index("RuntimeError: ") + len("RuntimeError: ") :]
    )
    assert "the caller's" not in environment.values()
    assert environment["HOME"] == folder
    # What Triton compiles for it is found by its next worker, and by no other solution's.
    assert environment["TRITON_CACHE_DIR"] == str(context.builds("facts") / "triton")
    assert Path(folder).name.startswith("harness-")
    assert not Path(folder).exists()
    assert session == pid != os.getsid(0)
    assert "" not in path
    assert os.getcwd() not in path[:1]
    assert ninja == str(Path(sys.executable).parent / "ninja") or ninja is not None
    assert isolated == 1


@BOTH_WAYS
def test_a_real_worker_answers_whatever_an_order_raises_and_goes_on(
    bench: Bench, warm: bool
) -> None:
    with bench.context(**OPEN, warm_workers=warm).worker("orders", salt="orders") as worker:
        for source, wanted in (
            ("raise KeyError('x')", "KeyError: 'x'"),
            ("import sys\nsys.exit(0)", "SystemExit: 0"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ):
            with pytest.raises(WorkerFault, match=wanted):
                worker.ask("build", timeout_s=60, source=source, file_name="s.py")
        with pytest.raises(WorkerFault, match="KeyError"):
            worker.ask("no such order", timeout_s=60)
        good = "class ModelNew: pass"
        answer = worker.ask("build", timeout_s=60, source=good, file_name="s.py").body["answer"]
    assert answer == {"builds": []}
