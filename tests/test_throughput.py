"""The benchmark of throughput: its set of solutions, and how it keeps time and budget."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pytest

from benchmarks import published, throughput
from harness import catalog
from harness.config import Settings
from harness.judge import ahead


@pytest.mark.parametrize("cuda", [False, True], ids=["cpu", "cuda"])
def test_the_set_is_half_builds_each_with_a_text_of_its_own(tmp_path: Path, cuda: bool) -> None:
    published.write(tmp_path, 30, cuda=cuda)
    found = [
        solution
        for name, _ in catalog.find_problems(tmp_path / "problems").items()
        for solution in catalog.find_solutions(
            tmp_path / "solutions", catalog.load_problem(name, tmp_path / "problems")
        )
    ]
    assert len({solution.digest for solution in found}) == 30
    assert sum(ahead.needs_build(solution) for solution in found) == 15
    device = "cuda" if cuda else "cpu"
    assert all(solution.fault is None and device in solution.devices for solution in found)


def test_the_phases_add_up_to_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)) / 2)
    clock = throughput.Clock(deadline=1e9)
    clock.begin("p", "s", "smoke")
    for text in (
        "waiting: builds: 1 under way, 0 to come",
        "reference: eager, forward: epoch 1; builds: 1 under way, 0 to come",
        *("start", "build", "load", "check forward: values 1, size smoke"),
        *("forward_backward: epoch 3", "memory", "profile", "audit"),
    ):
        clock.note(text)
    clock.spans.append(("end", time.monotonic()))
    found = clock.seconds()
    assert all(found[phase] > 0 for phase in found)
    assert sum(found.values()) == clock.spans[-1][1] - clock.spans[0][1]
    late = clock.seconds(since_s=sum(found.values()) - 4.0)
    assert sum(late.values()) == pytest.approx(4.0)
    assert throughput.share(found) == pytest.approx(
        sum(found[p] for p in throughput.BUSY) / sum(found.values())
    )


def test_a_run_ends_when_the_budget_is_spent() -> None:
    clock = throughput.Clock(deadline=time.monotonic() - 1)
    with pytest.raises(throughput.OverBudget):
        clock.note("load")


def test_counts_are_lowered_to_the_budget() -> None:
    plan = throughput.Plan(
        asked=argparse.Namespace(), settings=Settings(), until=time.monotonic() + 1000
    )
    assert plan.affordable(100) == 100  # nothing is known yet
    plan.lines = [{"done": 10, "process_s": 300.0}, {"done": 10, "process_s": 100.0}]
    assert plan.affordable(100) == 24
    assert plan.affordable(10) == 10
