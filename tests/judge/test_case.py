"""A problem that stays open: for how long, and for whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from unittest import mock

import pytest
from support import HONEST, TINY, Bench

from harness.errors import ProblemError
from harness.judge import case
from harness.judge.case import Opened
from harness.judge.context import Context
from harness.judge.timing import baseline
from harness.judge.timing.baseline import Baseline
from harness.records import Problem


@pytest.fixture
def opens() -> Iterator[mock.Mock]:
    """Counts what is really opened; nothing is measured."""
    with (
        mock.patch.object(baseline, "measure", return_value=Baseline()),
        mock.patch.object(case, "open_case", wraps=case.open_case) as opens,
    ):
        yield opens


@pytest.fixture
def context(bench: Bench) -> Context:
    return bench.context()


@pytest.fixture
def tiny(bench: Bench) -> Problem:
    return bench.problem(TINY)


def test_a_problem_is_opened_once_for_all_that_ask_for_the_same(
    opens: mock.Mock, context: Context, tiny: Problem
) -> None:
    opened = Opened()
    first = opened(context, tiny, "full")
    later = dataclasses.replace(context, run_id="later")
    again = opened(later, tiny, "full")
    assert opens.call_count == 1
    assert again.subject is first.subject
    assert again.context is later  # logs and builds are those of the evaluation


def test_another_text_size_or_setting_is_another_problem(
    opens: mock.Mock, context: Context, tiny: Problem, bench: Bench
) -> None:
    opened = Opened()
    other = dataclasses.replace(context.settings, trials=2)
    for context_now, problem, size in (
        (context, tiny, "full"),
        (context, bench.problem(TINY + "# saved\n"), "full"),
        (context, tiny, "full"),
        (context.on(other), tiny, "full"),
        (context, tiny, "ROWS=3"),
    ):
        opened(context_now, problem, size)
    assert opens.call_count == 5


def test_a_problem_does_not_stay_open_for_ever(
    opens: mock.Mock, context: Context, tiny: Problem
) -> None:
    opened = Opened(seconds=0.0)
    opened(context, tiny, "full")
    opened(context, tiny, "full")
    assert opens.call_count == 2
    lasting = Opened()
    lasting(context, tiny, "full")
    lasting.close()
    lasting(context, tiny, "full")
    assert opens.call_count == 4


@pytest.mark.parametrize(("faults", "times"), [(False, 2), (True, 1)])
def test_that_a_problem_cannot_be_opened_is_kept_where_that_is_asked(
    faults: bool, times: int, context: Context, tiny: Problem
) -> None:
    opened = Opened(faults=faults)
    broken = ProblemError("no", path="p")  # it may be that others used the memory
    with mock.patch.object(case, "open_case", side_effect=broken) as opens:
        for _ in range(2):
            with pytest.raises(ProblemError, match="no"):
                opened(context, tiny, "full")
    assert opens.call_count == times


def test_solutions_are_judged_by_a_problem_that_stayed_open(
    opens: mock.Mock, bench: Bench, tiny: Problem
) -> None:
    from harness.judge import evaluate

    opened = Opened()
    wrong = HONEST.replace("mean(dim=1)", "sum(dim=1)")
    statuses = [
        evaluate.evaluate(opened(bench.context(), tiny, "full"), bench.solution(text, tiny))[0]
        for text in (HONEST, wrong, HONEST)
    ]
    assert [row.verdict.status.value for row in statuses] == ["pass", "wrong_output", "pass"]
    assert opens.call_count == 1
