"""A judge's side of a unit: what it keeps open, what it says, what it refuses."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from fleets import Fakes
from support import HONEST, TINY

from harness import results, run
from harness.errors import HarnessError, ProblemError
from harness.fleet import judging, units
from harness.judge import case
from harness.judge.timing import baseline
from harness.judge.timing.baseline import Baseline
from harness.records import Problem, Solution
from harness.run import Job
from harness.source import read_problem, read_solution


class Wire:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.said.append(json.loads(json.dumps(message)))

    def rows(self) -> list[dict[str, Any]]:
        return [message for message in self.said if "row" in message]


@pytest.fixture(autouse=True)
def no_measuring() -> Iterator[None]:
    with mock.patch.object(baseline, "measure", return_value=Baseline()):
        yield


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def judge(tmp_path: Path, wire: Wire) -> Any:
    """A judge that is ready, on the CPU."""
    (tmp_path / "own").mkdir()
    made = judging._Judge(wire=wire, output=tmp_path / "own" / "rows.csv")  # type: ignore[arg-type]
    request = Fakes(folder=tmp_path).request({})
    made.get_ready({**units.terms(request, "this run"), "neighbours": 2})
    return made


@pytest.fixture
def job(tmp_path: Path) -> Any:
    def make(*texts: str, problem: str = TINY, name: str = "tiny") -> Job:
        path = tmp_path / f"{name}.py"
        path.write_text(problem)
        found = read_problem(name, path)
        solutions = []
        for n, text in enumerate(texts):
            file = tmp_path / f"s{n}.py"
            file.write_text(text)
            solutions.append(read_solution(f"s{n}", file, found))
        return Job(problem=found, solutions=solutions)

    return make


BROKEN = "class ModelNew(:\n"


def test_rows_come_with_their_samples_and_log_and_leave_nothing(
    judge: Any, wire: Wire, job: Any, tmp_path: Path
) -> None:
    judge.evaluate(units.pack(job(HONEST), []))
    assert "environment" in wire.said[0]["hello"]
    assert wire.said[1] == {"begin": ["tiny", "s0", "full"]}
    assert wire.said[-1] == {"done": True}
    (message,) = wire.rows()
    row = results.to_row(message["row"])
    assert (row.verdict.status.value, row.run_id) == ("pass", "this run")
    content = json.loads(gzip.decompress(base64.b64decode(message["samples"])))
    assert content["run_id"] == "this run--tiny--s0"
    assert set(content["timings"]) == {"forward"}
    assert isinstance(message["log"], str)
    left = [p for p in (tmp_path / "own").rglob("*") if p.is_file()]
    assert left == [tmp_path / "own" / "rows.csv"]


def test_a_row_of_an_earlier_run_is_not_measured_again(judge: Any, wire: Wire, job: Any) -> None:
    unit = job(HONEST)
    judge.evaluate(units.pack(unit, []))
    earlier = {**wire.rows()[0]["row"], "run_id": "earlier"}
    with mock.patch.object(case, "open_case", side_effect=AssertionError):
        judge.evaluate(units.pack(unit, [earlier]))
    assert wire.rows()[1] == {"row": earlier, "known": True}


def test_a_problem_stays_open_until_another_one_comes(judge: Any, job: Any) -> None:
    with mock.patch.object(case, "open_case", side_effect=ProblemError("no", path="p")) as opened:
        for _ in range(3):
            judge.evaluate(units.pack(job(HONEST), []))
        assert opened.call_count == 1  # that it is at fault is known, too
        judge.evaluate(units.pack(job(HONEST, name="other"), []))
        judge.evaluate(units.pack(job(HONEST), []))
        assert opened.call_count == 3


def test_units_travel_as_they_are(job: Any) -> None:
    made = dataclasses.replace(job(HONEST, BROKEN), fault=ProblemError("why", path="p", line=3))
    arrived, known = units.unpack(json.loads(json.dumps(units.pack(made, [{"a": None}]))))
    assert (arrived.problem, arrived.solutions) == (made.problem, made.solutions)
    assert arrived.fault is not None
    assert str(arrived.fault) == "p:3: why"
    assert known == [{"a": None}]


def _wrong_problem(unit: Job) -> Job:
    return dataclasses.replace(unit, problem=dataclasses.replace(unit.problem, digest="0" * 16))


def _wrong_solution(unit: Job) -> Job:
    solution = dataclasses.replace(unit.solutions[0], source=unit.solutions[0].source + "#")
    return dataclasses.replace(unit, solutions=[solution])


@pytest.mark.parametrize("damage", [_wrong_problem, _wrong_solution])
def test_a_source_that_is_not_what_its_digest_says_is_refused(
    judge: Any, wire: Wire, job: Any, damage: Any
) -> None:
    with pytest.raises(HarnessError, match="digest"):
        judge.evaluate(units.pack(damage(job(HONEST)), []))
    assert wire.rows() == []


def test_a_unit_that_changed_on_its_way_is_refused(job: Any) -> None:
    message = units.pack(job(HONEST), [])
    with pytest.raises(units.Damaged):
        units.unpack({**message, "unit": message["unit"].replace("tiny", "tinx")})


def test_terms_make_the_same_request_at_the_other_side(tmp_path: Path) -> None:
    request = Fakes(folder=tmp_path).request({}, fresh=True, require_backward=True)
    told = json.loads(json.dumps(units.terms(request, "r")))
    made = units.request_of(told, tmp_path / "own.csv")
    assert made.settings == request.settings
    assert made.settings.digest == request.settings.digest
    assert (made.fresh, made.require_backward, made.build_only) == (True, True, False)
    assert made.cache_dir == request.cache_dir


def test_a_node_has_a_build_cache_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = units.terms(Fakes(folder=tmp_path).request({}), "r")
    made = units.request_of({**told, "cache_dir": None}, tmp_path / "own.csv")
    assert made.cache_dir == tmp_path / "kernel-harness"


def test_of_a_long_log_beginning_and_end_travel(tmp_path: Path) -> None:
    file = tmp_path / "long.log"
    file.write_bytes(b"a" * 5000 + b"b" * 5000)
    assert judging._taken(file, 100) == b"a" * 50 + b"\n[...]\n" + b"b" * 50
    assert not file.exists()


def test_records_are_made_of_nothing_that_json_lacks() -> None:
    """What `pack` relies on: a record of sources is texts, and tuples of texts."""
    for record in (Problem, Solution):
        kinds = {str(field.type) for field in dataclasses.fields(record)}
        assert kinds <= {"str", "str | None", "tuple[str, ...]"}


def test_all_flags_of_a_request_reach_the_judge() -> None:
    flags = {f.name for f in dataclasses.fields(run.Request) if str(f.type) == "bool"}
    assert flags == set(units.FLAGS)
