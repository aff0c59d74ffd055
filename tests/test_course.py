"""Which solution is next, what is built ahead, and what never gets the device."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from support import HONEST, QUICK, SCALE_SOURCE, TINY, Bench, gone

from harness import course, run
from harness.config import Settings
from harness.judge import ahead, build, evaluate
from harness.judge.process.cores import Shares
from harness.judge.rows import Findings
from harness.judge.subject import Subject
from harness.judge.timing import baseline
from harness.judge.timing.baseline import Baseline
from harness.judge.verdicts import verdict
from harness.records import Phase, Row, Status

BUILDS = HONEST + "# load_inline\n"  # which the fakes below "build"
BROKEN = "class ModelNew(:\n"
INLINE = """
from torch.utils.cpp_extension import load_inline

SOURCE = r'''{source}'''
extension = load_inline(name="scale", cpp_sources=SOURCE, no_implicit_headers=True)
"""
COMPILES = INLINE.format(source=SCALE_SOURCE) + HONEST
FAILS = INLINE.format(source=SCALE_SOURCE.replace("(float)factor", "(floot)factor")) + HONEST


@dataclass
class Told(run.Silent):
    """An observer that keeps what it is told, and does something at each row."""

    notes: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    done: dict[str, threading.Event] = field(default_factory=dict)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def row(self, row: Row) -> None:
        self.rows.append(row)
        if event := self.done.get(row.solution):
            event.set()


@pytest.fixture
def request_of(tmp_path: Path) -> Any:
    """A request over `solutions` {problem/name: text}, each problem being `TINY`."""

    def make(solutions: dict[str, str], **changes: Any) -> run.Request:
        for name, text in solutions.items():
            problem = tmp_path / "problems" / f"{name.split('/')[0]}.py"
            problem.parent.mkdir(exist_ok=True)
            problem.write_text(TINY)
            path = tmp_path / "solutions" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return run.Request(
            settings=Settings(**QUICK),
            problem_dir=tmp_path / "problems",
            solution_dir=tmp_path / "solutions",
            results_dir=tmp_path / "results",
            cache_dir=tmp_path / "cache",
            **changes,
        )

    return make


@dataclass
class Fakes:
    """Stand-ins for builds and evaluations: what was built, and what opens the builds' way."""

    built: list[str] = field(default_factory=list)
    until: dict[str, threading.Event] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)

    def build(self, context: Any, problem: Any, solution: Any, *_: Any) -> build.Build:
        if event := self.until.get(solution.name):
            assert event.wait(30)
        self.built.append(solution.name)
        outcome = verdict(Status.BUILT, Phase.BUILD, "built")
        return build.Build(verdict=outcome, found=Findings(build_s=7.0), total_s=7.0)

    def open_case(self, context: Any, problem: Any, *_: Any) -> Any:
        self.opened.append(problem.name)
        return mock.Mock(
            context=context, subject=Subject(problem=problem, size="full"), baseline=Baseline()
        )

    def evaluate(self, case: Any, solution: Any, note: Any, *, built_s: Any) -> Any:
        outcome = verdict(Status.PASS, Phase.DONE, f"built in {built_s} s")
        return evaluate.unjudged(case.context, case.subject.problem, solution, outcome, "full"), {}


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    fakes = Fakes()
    monkeypatch.setattr(build, "alone", fakes.build)
    monkeypatch.setattr(run, "open_case", fakes.open_case)
    monkeypatch.setattr(course.evaluate, "evaluate", fakes.evaluate)
    return fakes


def names(rows: list[Row]) -> list[str]:
    return [row.solution for row in rows]


# --- order --------------------------------------------------------------------------------------


def test_what_is_ready_goes_first_and_the_problem_at_hand_before_others(
    request_of: Any, fakes: Fakes
) -> None:
    told = Told(done={"b2": threading.Event()})
    fakes.until = {"a1": told.done["b2"]}  # not built before all that needs no build is done
    request = request_of({"a/a1": BUILDS, "a/a2": HONEST, "b/b1": HONEST, "b/b2": HONEST})
    rows = run.execute(request, told)
    assert names(told.rows) == ["a2", "b1", "b2", "a1"]
    assert names(rows) == ["a1", "a2", "b1", "b2"]
    assert fakes.opened == ["a", "b"]  # each reference once, however often it is come back to
    assert any(note.endswith("builds: 1 under way, 0 to come") for note in told.notes)


def test_builds_begin_in_the_order_asked(request_of: Any, fakes: Fakes) -> None:
    request = request_of({f"{p}/{p}{n}": BUILDS for p in "ab" for n in "123"})
    one = Shares(builders=(0,), reserved=None, builds=1, jobs=1)
    with mock.patch.object(ahead, "shares", return_value=one):
        rows = run.execute(request, Told())
    assert fakes.built == names(rows) == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert {row.verdict.message for row in rows} == {"built in 7.0 s"}


def test_only_what_will_be_evaluated_and_can_build_is_built(request_of: Any, fakes: Fakes) -> None:
    solutions = {
        "a/plain": HONEST,
        "a/no_python": BROKEN + "# load_inline",
        "a/other_device": "DEVICES = ('cuda',)\n" + BUILDS,
        "a/builds": BUILDS,
    }
    run.execute(request_of(solutions), Told())
    assert fakes.built == ["builds"]


def test_what_is_taken_from_the_results_is_not_built_again(
    request_of: Any, fakes: Fakes, tmp_path: Path
) -> None:
    run.execute(request_of({"a/old": BUILDS}), Told())
    for marker in (tmp_path / "cache").rglob("ahead-*"):
        marker.unlink()
    run.execute(request_of({"a/old": BUILDS, "a/young": BUILDS + "#"}), Told())
    assert fakes.built == ["old", "young"]


def test_a_link_that_a_build_has_left_is_not_followed(
    request_of: Any, fakes: Fakes, tmp_path: Path
) -> None:
    run.execute(request_of({"a/old": BUILDS}), Told())
    (marker,) = (tmp_path / "cache").rglob("ahead-*")
    marker.unlink()
    marker.symlink_to(tmp_path / "made by the judge")
    run.execute(request_of({"a/old": BUILDS}), Told())
    assert not (tmp_path / "made by the judge").exists()


def test_what_an_earlier_run_has_built_is_not_built_ahead_again(
    request_of: Any, fakes: Fakes
) -> None:
    for _ in range(2):
        told = Told()
        run.execute(request_of({"a/x": BUILDS}, fresh=True), told)
        assert names(told.rows) == ["x"]
    assert fakes.built == ["x"]


def test_building_alone_builds_all_of_them(request_of: Any, fakes: Fakes) -> None:
    request = request_of({"a/x": BUILDS, "a/y": HONEST, "b/z": BROKEN}, build_only=True)
    assert names(run.execute(request, Told())) == names(run.execute(request, Told()))
    assert sorted(fakes.built) == ["x", "x", "y", "y", "z", "z"]
    assert fakes.opened == []


# --- the reference beside builds ---------------------------------------------------------------


class Apart(ahead.Builds):
    """As on a machine with cores to spare."""

    apart = True  # type: ignore[assignment]


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "Builds", Apart)


@pytest.mark.usefixtures("apart")
def test_a_reference_is_made_ready_while_there_is_nothing_but_builds(
    request_of: Any, fakes: Fakes
) -> None:
    fakes.until = {"x": threading.Event()}

    def opens(*arguments: Any) -> Any:
        fakes.until["x"].set()
        return fakes.open_case(*arguments)

    with mock.patch.object(run, "open_case", opens):
        run.execute(request_of({"a/x": BUILDS}), Told())
    assert fakes.opened == ["a"]


@pytest.mark.usefixtures("apart")
def test_it_is_given_up_where_all_builds_of_its_problem_fail(request_of: Any, fakes: Fakes) -> None:
    opening = threading.Event()

    def fails(*arguments: Any) -> build.Build:
        assert opening.wait(30)
        outcome = verdict(Status.COMPILE_ERROR, Phase.BUILD, "no")
        return build.Build(verdict=outcome, found=Findings(), total_s=1.0, fault="compile")

    def opens(context: Any, problem: Any, size: str, note: Any) -> Any:
        opening.set()
        for step in range(3000):
            note(f"step {step}")
            threading.Event().wait(0.01)
        raise AssertionError("was not given up")

    with mock.patch.object(run, "open_case", opens), mock.patch.object(build, "alone", fails):
        rows = run.execute(request_of({"a/x": BUILDS, "a/y": BUILDS + "#"}), Told())
    assert [row.verdict.status for row in rows] == [Status.COMPILE_ERROR] * 2


# --- real builds --------------------------------------------------------------------------------


@pytest.fixture
def no_measuring() -> Iterator[None]:
    with mock.patch.object(baseline, "measure", return_value=Baseline()):
        yield


@pytest.mark.usefixtures("no_measuring")
def test_one_that_builds_and_one_that_does_not(request_of: Any, bench: Bench) -> None:
    told = Told()
    with mock.patch.object(build, "alone", wraps=build.alone) as built:
        rows = run.execute(request_of({"a/fails": FAILS, "a/right": COMPILES}), told)
    assert [row.verdict.status for row in rows] == [Status.COMPILE_ERROR, Status.PASS]
    assert built.call_count == 2
    assert rows[1].build_s is not None
    assert rows[1].build_s > 0.1  # the compiler's, though the evaluation found it in the cache
    assert "floot" in Path(rows[0].log).read_text()
    # The same verdict as where nothing runs ahead.
    alone = bench.judge(FAILS)
    assert rows[0].verdict.phase is alone.verdict.phase
    file = lambda row: row.verdict.message.replace(f"{row.solution}.py", "it")  # noqa: E731
    assert file(rows[0]) == file(alone)
    assert rows[0].flags == alone.flags


@pytest.mark.usefixtures("no_measuring")
def test_what_cannot_build_is_not_given_the_device(request_of: Any) -> None:
    with (
        mock.patch.object(run, "open_case", side_effect=AssertionError),
        mock.patch.object(evaluate, "evaluate", side_effect=AssertionError),
    ):
        (row,) = run.execute(request_of({"a/fails": FAILS}), Told())
    assert row.verdict.status is Status.COMPILE_ERROR


@pytest.mark.parametrize("warm", [False, True], ids=["programs", "forked"])
def test_an_interrupt_ends_all_builds(request_of: Any, warm: bool) -> None:
    sleeps = "import time\ntime.sleep(600)  # load_inline\n" + HONEST

    class Interrupting(Told):
        def begin(self, problem: str, solution: str, size: str) -> None:
            deadline = time.monotonic() + 60
            while len(self.workers() - self.servers()) < 4:  # of two builds, warden and worker
                assert time.monotonic() < deadline
                time.sleep(0.05)
            self.seen = self.workers()
            raise KeyboardInterrupt

        def workers(self) -> set[psutil.Process]:
            return set(psutil.Process().children(recursive=True)) - before

        def servers(self) -> set[psutil.Process]:
            return {p for p in self.workers() if warm and p.ppid() == os.getpid()}

    before, told = set(psutil.Process().children(recursive=True)), Interrupting()
    request = request_of({"a/plain": HONEST, "b/one": sleeps, "b/two": sleeps, "b/three": sleeps})
    settings = dataclasses.replace(request.settings, sandbox="default", warm_workers=warm)
    request = dataclasses.replace(request, settings=settings)
    two = Shares(builders=(0,), reserved=None, builds=2, jobs=1)
    with mock.patch.object(ahead, "shares", return_value=two), pytest.raises(KeyboardInterrupt):
        run.execute(request, told)
    assert told.workers() == told.servers()  # those stay until the judge ends
    assert all(gone(process.pid) for process in told.seen - told.servers())
