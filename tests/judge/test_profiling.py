"""Profiles: both sides in workers of their own; what a solution does wrong is a line."""

from __future__ import annotations

import pytest
from support import HONEST, TINY, Bench

from harness.errors import RequestError
from harness.judge import profiling
from harness.judge.profiling import Profile
from harness.judge.sandbox import WorkerLied


def take(bench: Bench, source: str, mode: str | None = None) -> Profile:
    problem = bench.problem(TINY)
    solution = bench.solution(source, problem)
    return profiling.take(bench.context(), problem, solution, size="full", mode=mode)


def test_both_sides_are_listed_in_the_mode_that_trains(bench: Bench) -> None:
    found = take(bench, HONEST.replace("** 2", ".square()").replace("(x - y) ", "(x - y)"))
    assert found.mode == "forward_backward"
    assert found.fault == ""
    for side in (found.reference, found.candidate):
        assert sum(kernel.share for kernel in side) == pytest.approx(1.0)
        assert [k.time_us for k in side] == sorted((k.time_us for k in side), reverse=True)
    assert "aten::square" in {kernel.name for kernel in found.candidate}
    assert "aten::square" not in {kernel.name for kernel in found.reference}


def test_a_solution_that_raises_leaves_the_reference_and_says_so(bench: Bench) -> None:
    found = take(bench, HONEST.replace("return", "raise KeyError('x')\n        return"), "forward")
    assert found.candidate == ()
    assert "KeyError" in found.fault
    assert found.reference


def test_a_mode_that_there_is_not_is_refused_before_anything_runs(bench: Bench) -> None:
    with pytest.raises(RequestError, match="no mode 'sideways'; it has forward, "):
        take(bench, HONEST, "sideways")


@pytest.mark.parametrize("claim", [[{}], [{"name": "x", "time_us": "soon"}], [3]])
def test_a_list_that_is_none_is_a_lie(claim: list[object]) -> None:
    from harness.judge.sandbox import claimed

    with pytest.raises(WorkerLied), claimed():
        tuple(profiling._read(claim))  # type: ignore[arg-type]
