"""Judges as processes of this machine: who dies, hangs or is interrupted loses nothing."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from fleets import Fakes, Told, verdicts
from support import HONEST, QUICK, TINY, gone

from harness import results, run
from harness.config import Settings
from harness.errors import MachineError, RequestError
from harness.fleet import fleet, host, units
from harness.fleet.slots import JUDGE, LocalSlot, Lost, Slot
from harness.records import Row

WRONG = HONEST.replace("mean(dim=1)", "sum(dim=1)")


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    return Fakes(folder=tmp_path)


def slots(fakes: Fakes, *commands: Sequence[str], silence_s: float = 30.0) -> list[LocalSlot]:
    return [
        LocalSlot(
            name=f"slot {n}",
            environment={},
            log=fakes.folder / f"judge{n}.log",
            silence_s=silence_s,
            command=command,
        )
        for n, command in enumerate(commands)
    ]


def evaluate(
    fakes: Fakes,
    deeds: dict[str, str],
    commands: Sequence[Sequence[str]] = (),
    told: Told | None = None,
    silence_s: float = 30.0,
    **changes: Any,
) -> list[Row]:
    """The rows of fake judges; two where nothing else is said."""
    request = fakes.request(deeds, **changes)
    places = slots(fakes, *(commands or [fakes.command()] * 2), silence_s=silence_s)
    return fleet.execute(request, places, told or Told(), device="cpu")


def written(fakes: Fakes, name: str = "Fake_1.csv") -> dict[str, str]:
    """problem/solution -> status, of a results file without a row too many."""
    rows = results.plain(results.read(fakes.folder / "results" / name))
    found = {f"{row['problem']}/{row['solution']}": str(row["status"]) for row in rows}
    assert len(found) == len(rows)
    return found


DEEDS = {f"{p}/{n}": "naps" for p in ("a", "b", "c") for n in range(5)}


def test_each_solution_gets_one_row_in_the_order_of_the_request(fakes: Fakes) -> None:
    told = Told()
    rows = evaluate(fakes, DEEDS, told=told)
    assert list(verdicts(rows)) == sorted(DEEDS)
    assert set(verdicts(rows).values()) == {"pass"}
    assert written(fakes) == verdicts(told.rows) == verdicts(rows)
    assert set(fakes.begun().values()) == {1}
    assert len({judge for _, judge, _ in fakes.journal()}) == 2
    assert len({row.run_id for row in rows}) == 1
    assert told.counts == [(n, 15) for n in range(1, 16)]


def test_unlike_devices_have_files_of_their_own(fakes: Fakes) -> None:
    rows = evaluate(fakes, DEEDS, [fakes.command("Fake 1"), fakes.command("Fake 2")])
    one, two = written(fakes), written(fakes, "Fake_2.csv")
    assert one
    assert two
    assert one.keys().isdisjoint(two)
    assert one | two == verdicts(rows)


def test_one_file_for_all_where_one_is_named(fakes: Fakes) -> None:
    commands = [fakes.command("Fake 1"), fakes.command("Fake 2")]
    rows = evaluate(fakes, DEEDS, commands, output=fakes.folder / "results" / "all.csv")
    assert written(fakes, "all.csv") == verdicts(rows)


# --- deaths and silence -------------------------------------------------------------------------


def test_a_judge_that_dies_costs_nobody_a_row(fakes: Fakes) -> None:
    told = Told()
    rows = evaluate(fakes, DEEDS | {"a/2": "dies once"}, told=told)
    assert set(verdicts(rows).values()) == {"pass"}
    assert written(fakes) == verdicts(rows)
    assert len(rows) == len(DEEDS)
    assert fakes.begun() == {name: 2 if name == "a/2" else 1 for name in DEEDS}
    assert any("SIGKILL" in warning for warning in told.warnings)


def test_who_kills_every_judge_is_tried_three_times_and_nobody_else_pays(fakes: Fakes) -> None:
    rows = evaluate(fakes, DEEDS | {"a/2": "dies"})
    found = verdicts(rows)
    assert found.pop("a/2") == "harness_error"
    assert set(found.values()) == {"pass"}
    assert fakes.begun()["a/2"] == 3
    assert written(fakes) == verdicts(rows)
    lost = next(row for row in rows if row.verdict.status.value == "harness_error")
    assert lost.verdict.message == "its judge was lost 3 times: it died of SIGKILL"
    assert lost.solution_digest
    assert lost.size == "full"


def test_a_judge_that_says_nothing_is_given_up(fakes: Fakes) -> None:
    began = time.monotonic()
    rows = evaluate(fakes, {"a/1": "hangs", "a/2": "passes", "b/1": "passes"}, silence_s=0.7)
    assert verdicts(rows) == {"a/1": "harness_error", "a/2": "pass", "b/1": "pass"}
    assert "said nothing for 0.7 s" in rows[0].verdict.message
    assert time.monotonic() - began < 60
    assert all(gone(int(judge)) for _, judge, _ in fakes.journal())


def test_one_place_alone_goes_on_whatever_dies(fakes: Fakes) -> None:
    deeds = {f"a/{n}": "dies" for n in range(3)} | {"a/9": "passes"}
    rows = evaluate(fakes, deeds, [fakes.command()])
    assert verdicts(rows) == {n: "pass" if n == "a/9" else "harness_error" for n in deeds}


class NoRoom:
    """A slot whose judge never gets a place, as on a cluster that is full."""

    name = "slot without room"

    def __init__(self) -> None:
        self.ended = threading.Event()

    def start(self, terms: Any) -> dict[str, Any]:
        self.ended.wait()
        raise Lost("ended")

    def judge(self, unit: Any) -> Iterator[dict[str, Any]]:
        raise NotImplementedError

    def end(self) -> None:
        self.ended.set()


def test_nobody_waits_for_a_place_that_is_not_needed(fakes: Fakes) -> None:
    places: list[Slot] = [NoRoom(), *slots(fakes, fakes.command())]
    rows = fleet.execute(fakes.request(DEEDS), places, Told(), device="cpu")
    assert set(verdicts(rows).values()) == {"pass"}
    assert written(fakes) == verdicts(rows)


# --- places that are of no use ------------------------------------------------------------------


def test_a_place_where_no_judge_starts_is_left_alone(fakes: Fakes) -> None:
    told = Told()
    rows = evaluate(fakes, DEEDS, [[sys.executable, "-c", "1/0"], fakes.command()], told=told)
    assert set(verdicts(rows).values()) == {"pass"}
    assert any("slot 0" in w and "no more work" in w for w in told.warnings)


def test_a_machine_that_cannot_is_named_and_the_others_go_on(fakes: Fakes) -> None:
    told = Told()
    refusal = {"kind": "MachineError", "message": "no compiler: install one"}
    rows = evaluate(fakes, DEEDS, [fakes.command("x", refusal=refusal), fakes.command()], told=told)
    assert set(verdicts(rows).values()) == {"pass"}
    assert told.warnings == ["slot 0: no compiler: install one; it gets no more work"]


def test_where_no_place_is_left_the_reason_is_told(fakes: Fakes) -> None:
    refusal = {"kind": "MachineError", "message": "no compiler: install one"}
    with pytest.raises(MachineError, match=r"no judge is left: slot \d: no compiler"):
        evaluate(fakes, DEEDS, [fakes.command("x", refusal=refusal)] * 2)


def test_a_wrong_request_ends_the_run(fakes: Fakes) -> None:
    refusal = {"kind": "RequestError", "message": "no such size"}
    with pytest.raises(RequestError, match="no such size"):
        evaluate(fakes, DEEDS, [fakes.command("x", refusal=refusal), fakes.command()])


# --- interrupted and taken up again -------------------------------------------------------------


class Interrupted(Told):
    """Ctrl-C at the third row."""

    def row(self, row: Row) -> None:
        super().row(row)
        if len(self.rows) == 3:
            raise KeyboardInterrupt


def test_ctrl_c_ends_judges_keeps_rows_and_goes_on_where_it_stopped(fakes: Fakes) -> None:
    told = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        evaluate(fakes, DEEDS, told=told)
    assert all(gone(int(judge)) for _, judge, _ in fakes.journal())
    kept = written(fakes)
    assert 3 <= len(kept) < len(DEEDS)
    before = fakes.begun()
    rows = evaluate(fakes, DEEDS)
    assert list(verdicts(rows)) == sorted(DEEDS)
    assert written(fakes) == verdicts(rows)
    assert {n: c for n, c in fakes.begun().items() if c > before[n]}.keys().isdisjoint(kept)


def test_fresh_measures_all_again(fakes: Fakes) -> None:
    evaluate(fakes, DEEDS)
    evaluate(fakes, DEEDS, fresh=True)
    assert set(fakes.begun().values()) == {2}


def test_a_changed_solution_is_evaluated_again(fakes: Fakes) -> None:
    evaluate(fakes, DEEDS)
    evaluate(fakes, DEEDS | {"b/3": "naps  "})
    assert {name for name, count in fakes.begun().items() if count > 1} == {"b/3"}


# --- a slot -------------------------------------------------------------------------------------


def test_a_slot_that_was_ended_starts_no_judge(fakes: Fakes) -> None:
    (slot,) = slots(fakes, fakes.command())
    slot.end()
    with pytest.raises(Lost):
        slot.start({"run_id": "r"})


def test_a_judge_and_what_it_starts_run_on_the_cores_of_its_slot(fakes: Fakes) -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    (slot,) = slots(fakes, fakes.command())
    slot.cores = frozenset({core})
    slot.start({"run_id": "r"})
    assert slot._process is not None
    assert os.sched_getaffinity(slot._process.pid) == {core}
    assert os.sched_getaffinity(0) == before
    slot.end()


# --- real judges --------------------------------------------------------------------------------


def _killer(kill: Callable[[], None]) -> Told:
    """Kills a judge when the first row is known."""

    class Killer(Told):
        def row(self, row: Row) -> None:
            super().row(row)
            if len(self.rows) == 1:
                kill()

    return Killer()


def test_two_judges_find_what_one_finds_though_one_of_them_is_killed(tmp_path: Path) -> None:
    solutions = {
        "tiny/broken": "class ModelNew(:\n",
        "tiny/raises": "1 / 0\n" + HONEST,
        "tiny/right": HONEST,
        "tiny/wrong": WRONG,
        "other/right": HONEST,
        "other/wrong": WRONG,
    }
    for name, text in solutions.items():
        for kind, content in (("problems", TINY), ("solutions", text)):
            file = tmp_path / kind / f"{name if kind == 'solutions' else name.split('/')[0]}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    request = run.Request(
        settings=Settings(**QUICK),
        problem_dir=tmp_path / "problems",
        solution_dir=tmp_path / "solutions",
        results_dir=tmp_path / "results",
        cache_dir=tmp_path / "cache",
    )

    def kill() -> None:
        children = psutil.Process().children()
        judges = [c.pid for c in children if "harness.fleet.judging" in " ".join(c.cmdline())]
        os.kill(judges[0], signal.SIGKILL)

    told = _killer(kill)
    rows = host.execute(request, "cpu,cpu", told)
    wanted = {
        "tiny/broken": "contract_error",
        "tiny/raises": "load_error",
        "tiny/right": "pass",
        "tiny/wrong": "wrong_output",
        "other/right": "pass",
        "other/wrong": "wrong_output",
    }
    assert verdicts(rows) == wanted
    assert any("SIGKILL" in warning for warning in told.warnings)
    (file,) = (tmp_path / "results").glob("*.csv")
    lines = results.plain(results.read(file))
    assert sorted(f"{r['problem']}/{r['solution']}" for r in lines) == sorted(wanted)
    for row in rows:
        if row.verdict.status.value in ("load_error", "pass"):
            assert Path(row.log).is_file()
    assert len(list((tmp_path / "results" / "raw").iterdir())) == 2


def test_a_real_judge_that_is_ended_takes_its_worker_along(fakes: Fakes) -> None:
    busy = HONEST.replace("        return", "        __import__('time').sleep(600)\n        return")
    file = fakes.folder / "busy.py"
    file.write_text(busy)
    request = dataclasses.replace(
        fakes.request({"tiny/x": "x"}), problem="tiny", solution=str(file)
    )
    (slot,) = slots(fakes, JUDGE)
    slot.start(units.terms(request, "run"))
    assert slot._process is not None
    judge = psutil.Process(slot._process.pid)
    for message in slot.judge(units.pack(run.find(request)[0], [])):
        if "note" in message and message["note"].startswith("check"):
            break
    workers = judge.children(recursive=True)
    assert workers
    slot.end()
    assert all(gone(process.pid) for process in (judge, *workers))
