"""Builds and timing: who waits for whom, who gets which cores."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import psutil
import pytest
import torch
from support import HONEST, TINY, Bench

from harness import cpu
from harness.config import Settings
from harness.judge import ahead, build
from harness.judge.device import Device
from harness.judge.process import cores
from harness.judge.process.cores import Gate
from harness.judge.process.sandbox import Worker
from harness.judge.rows import Findings
from harness.judge.verdicts import verdict
from harness.records import Phase, Status

PAUSE_S = 0.2


def started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


# --- the gate -----------------------------------------------------------------------------------


def test_what_is_timed_waits_for_the_builds_under_way_and_goes_before_later_ones() -> None:
    gate, told, end = Gate(), [], threading.Event()

    def first() -> None:
        with gate.building():
            told.append("first build")
            assert end.wait(30)

    def timing() -> None:
        with gate.quiet():
            told.append("timing")

    def second() -> None:
        with gate.building():
            told.append("second build")

    threads = []
    for work in (first, timing, second):
        threads.append(started(work))
        threads[-1].join(PAUSE_S)  # until it waits, or is through
    assert told == ["first build"]
    end.set()
    for thread in threads:
        thread.join(30)
    assert told == ["first build", "timing", "second build"]


def test_builds_run_beside_each_other_and_timing_within_timing() -> None:
    gate = Gate()
    with gate.building(), gate.building():
        pass
    with gate.quiet(), gate.quiet():
        pass
    with gate.building():
        pass


def test_whoever_gives_up_waiting_keeps_nobody_waiting() -> None:
    gate = Gate()
    with (
        gate.building(),
        mock.patch.object(threading.Condition, "wait", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
        gate.quiet(),
    ):
        raise AssertionError("did not wait")
    with gate.building():
        pass


#: Orders that take a time, or a rate.
TIMED = {"calibrate", "warm_up", "epoch", "stopwatch", "samples"}


def test_all_that_is_timed_is_timed_in_quiet(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, seen, ask = Gate(), [], Worker.ask

    def looking(self: Worker, order: str, **arguments: Any) -> Any:
        seen.append((order, gate._timing > 0))
        return ask(self, order, **arguments)

    context = dataclasses.replace(bench.context(), quiet=gate.quiet)
    monkeypatch.setattr(Worker, "ask", looking)
    monkeypatch.setattr(Bench, "context", lambda *_, **__: context)
    fresh = Bench(folder=bench.folder)
    fresh.judge(HONEST, TINY + "# in quiet\n", real_baseline=True)
    assert {order for order, _ in seen} > TIMED
    assert {order for order, quiet in seen if not quiet} & TIMED == set()
    assert ("play", False) in seen  # checks need none


# --- shares -------------------------------------------------------------------------------------

CPU = Device(type="cpu", index=0, name="CPU", visible="", arch=None, memory_bytes=1 << 30)
GPU = dataclasses.replace(CPU, type="cuda", name="GPU", visible="0", arch="9.0a")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes one of so many cores, half of which are siblings of the others, and memory enough."""

    def make(count: int, quota: int | None = None) -> None:
        half = count // 2
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))
        monkeypatch.setattr(cpu, "cores", lambda: quota or count)
        monkeypatch.setattr(
            cpu, "siblings", lambda core: frozenset({core % half, core % half + half})
        )
        monkeypatch.setattr(cores, "compilers_at_once", lambda: 64)

    return make


def test_a_gpu_keeps_whole_cores_to_itself(machine: Callable[..., None]) -> None:
    machine(16)
    found = cores.shares(GPU, Settings())
    assert found.reserved == (0, 1, 8, 9)
    assert set(found.builders) == set(range(16)) - {0, 1, 8, 9}
    assert (found.builds, found.jobs) == (6, 2)


@pytest.mark.parametrize(
    ("device", "count", "quota", "reserved"),
    [(GPU, 4, None, 4), (CPU, 16, None, 4), (GPU, 16, None, 0), (GPU, 16, 4, 4), (GPU, 8, None, 8)],
    ids=["few cores", "a CPU", "none asked for", "a quota of few", "none would be left"],
)
def test_elsewhere_builds_make_way(
    machine: Callable[..., None], device: Device, count: int, quota: int | None, reserved: int
) -> None:
    machine(count, quota)
    found = cores.shares(device, Settings(reserved_cores=reserved))
    assert found.reserved is None
    assert found.builders == tuple(range(count))
    assert found.builds * found.jobs <= (quota or count)


@pytest.mark.parametrize(("asked", "builds", "jobs"), [(1, 1, 1), (2, 1, 2), (5, 2, 2)])
def test_no_more_compilers_than_asked_for(
    machine: Callable[..., None], asked: int, builds: int, jobs: int
) -> None:
    machine(16)
    found = cores.shares(GPU, Settings(max_jobs=asked))
    assert (found.builds, found.jobs) == (builds, jobs)


def test_memory_bounds_them(machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    machine(16)
    monkeypatch.setattr(cores, "compilers_at_once", lambda: 3)
    assert cores.shares(GPU, Settings()).builds == 1


# --- affinity -----------------------------------------------------------------------------------


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_judge_and_builds_keep_to_their_cores_and_leave_them_as_they_were(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    own, other = sorted(before)[:2]
    problem, seen = bench.problem(TINY), []
    tells = "import os\nraise ValueError(f'{os.sched_getaffinity(0)} load_inline')\n" + HONEST

    def building(*arguments: Any) -> build.Build:
        seen.append(os.sched_getaffinity(0))
        return alone(*arguments)

    alone = build.alone
    monkeypatch.setattr(build, "alone", building)
    parts = cores.Shares(builders=(other,), reserved=(own,), builds=1, jobs=1)
    monkeypatch.setattr(ahead, "shares", lambda *_: parts)
    context = bench.context()
    task = ahead.Task(context=context, problem=problem, solution=bench.solution(tells, problem))
    with ahead.Builds({1: task}) as builds:
        assert builds.apart
        assert os.sched_getaffinity(0) == {own}
        assert torch.get_num_threads() == 1  # what a row says of its workers
        with builds.beside(context).worker("w", salt="w", trusted=True) as worker:
            pid = psutil.Process(worker._process.pid)
            assert [p.cpu_affinity() for p in pid.children()] == [[own]]
        builds.wait()
        found = builds.build_of(1)
    assert found is not None
    assert f"{{{other}}} load_inline" in found.verdict.message
    assert seen == [{other}]
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == (before, threads)


# --- what a failed build settles ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "device", "text", "settled"),
    [
        ("compile", CPU, "", True),
        ("compile", GPU, "", True),
        ("machine", GPU, "", True),
        ("compile", CPU, "torch.cuda.is_available()", True),
        ("compile", GPU, "torch.cuda.is_available()", False),  # another text with a GPU, maybe
        ("compiler_killed", CPU, "", False),  # beside fewer others it may have memory enough
        ("exception", CPU, "", False),
        (None, CPU, "", False),  # a crash, a timeout
    ],
)
def test_only_what_would_fail_alike_is_not_tried_again(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    fault: str | None,
    device: Device,
    text: str,
    settled: bool,
) -> None:
    outcome = verdict(Status.COMPILE_ERROR, Phase.BUILD, "no")
    failed = build.Build(verdict=outcome, found=Findings(), total_s=1.0, fault=fault)
    monkeypatch.setattr(build, "alone", lambda *_: failed)
    problem = bench.problem(TINY)
    solution = bench.solution(f"{HONEST}\n# load_inline {text}", problem)
    context = dataclasses.replace(bench.context(), device=device)
    task = ahead.Task(context=context, problem=problem, solution=solution)
    with ahead.Builds({1: task}) as builds:
        while not builds.ready(1):
            builds.wait()
        assert builds.settled(1) is (failed if settled else None)


def test_a_build_ahead_sees_no_gpu(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def building(context: Any, *_: Any) -> build.Build:
        seen.append((context.device.visible, context.device.arch))
        outcome = verdict(Status.BUILT, Phase.BUILD, "")
        return build.Build(verdict=outcome, found=Findings(), total_s=1.0)

    monkeypatch.setattr(build, "alone", building)
    problem = bench.problem(TINY)
    solution = bench.solution(HONEST + "# load_inline", problem)
    context = dataclasses.replace(bench.context(), device=GPU)
    task = ahead.Task(context=context, problem=problem, solution=solution)
    with ahead.Builds({1: task}, again=True) as builds:
        while not builds.ready(1):
            builds.wait()
    assert seen == [("", "9.0a")]
