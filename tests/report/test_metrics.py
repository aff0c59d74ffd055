"""fast_p, pass@k and geometric means, held against hand counts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from examples import row

from harness.report import metrics, metrics_tables

#: Four problems of level 1 and one of level 2: 4x, 1x (flagged), not_exercised at 2x, wrong; 0.5x.
ROWS = [
    row("level1/1_A", speedup=4.0),
    row("level1/2_B", speedup=1.0, flags="forward:launch_bound library_only"),
    row("level1/3_C", "not_exercised", forward_reference_ms=2.0, forward_solution_ms=1.0),
    row("level1/4_D", "wrong_output"),
    row("level2/1_E", "forward_only", speedup=0.5, flags="left_out:large"),
    row("level2/2_F", "skipped"),
    row("level2/3_G", "reference_error"),
    row("level2/4_H", "pass", speedup=9.0, solution="self_check"),
]


def section(rows: list[Any], level: str = "all", mode: str = "forward", **options: Any) -> Any:
    baseline = options.pop("baseline", "eager")
    found = metrics.measure(rows, **options).sections
    return next(s for s in found if (s.level, s.mode, s.baseline) == (level, mode, baseline))


@pytest.mark.parametrize(
    ("level", "p", "counted", "clean"),
    [
        ("level1", 0.0, 3 / 4, 1 / 4),
        ("level1", 0.5, 3 / 4, 1 / 4),
        ("level1", 1.0, 2 / 4, 1 / 4),  # as fast is not faster
        ("level1", 2.0, 1 / 4, 1 / 4),
        ("level2", 0.0, 1.0, 1.0),
        ("level2", 0.5, 0.0, 0.0),
        ("all", 0.0, 4 / 5, 2 / 5),
        ("all", 3.99, 1 / 5, 1 / 5),
    ],
)
def test_fast_p_by_hand(level: str, p: float, counted: float, clean: float) -> None:
    score = section(ROWS, level, thresholds=(p,)).fast[p]
    assert (score.counted, score.clean) == pytest.approx((counted, clean))


def test_what_is_in_doubt_is_counted_beside() -> None:
    found = section(ROWS, "level1")
    assert (found.problems, found.right, found.flagged, found.not_exercised) == (4, 3, 1, 1)
    assert found.mean.counted == pytest.approx((4 * 1 * 2) ** (1 / 3))
    assert found.mean.clean == pytest.approx(4)
    assert metrics.measure(ROWS).left_out == {"skipped": 1, "reference_error": 1}


def test_over_torch_compile() -> None:
    found = section(ROWS, "level1", baseline="torch.compile", thresholds=(0.0, 1.0))
    assert found.fast[1.0].counted == pytest.approx(1 / 4)
    assert (found.fast[0.0].counted, found.untimed) == (pytest.approx(3 / 4), 1)


@pytest.mark.parametrize(
    ("flags", "forward", "training"),
    [
        ("forward:unstable", 1, 0),
        ("forward_backward:unstable", 0, 1),
        ("backward:beats_limit forward_train:contended", 0, 0),  # of figures not counted here
        ("varies", 1, 1),
        ("forward:unclocked", 1, 0),  # no clock of the judge's bears on it
        ("left_out:varies forward:launch_bound", 0, 0),
    ],
)
def test_a_flag_of_a_mode_puts_that_mode_in_doubt(flags: str, forward: int, training: int) -> None:
    timed = {"forward_backward_solution_ms": 1.0, "forward_backward_speedup": 3.0}
    rows = [row("a", speedup=2.0, flags=flags, **timed)]
    found = [section(rows, mode=mode).flagged for mode in ("forward", "training")]
    assert found == [forward, training]


@pytest.mark.parametrize("solutions", [["pass"], ["pass", "not_exercised"]])
def test_what_nobody_timed_is_not_known_rather_than_slow(solutions: list[str]) -> None:
    rows = [row(f"{n}", status) for n, status in enumerate(solutions)]
    for baseline in metrics.BASELINES:
        found = section([*rows, row("w", "wrong_output")], baseline=baseline, thresholds=(0.0, 1.0))
        assert found.fast[0.0].counted == pytest.approx(len(rows) / (len(rows) + 1))
        assert (found.fast[1.0].counted, found.fast[1.0].clean) == (None, None)
    wrong = section([row("w", "wrong_output")], thresholds=(1.0,))
    assert wrong.fast[1.0].counted == 0.0  # there is nothing to time


def test_training_needs_a_backward() -> None:
    timed = {"forward_backward_solution_ms": 1.0, "forward_backward_speedup": 3.0}
    rows = [row("a", speedup=2.0, **timed), row("b", speedup=2.0), row("c", "forward_only", 2.0)]
    found = section(rows, mode="training", thresholds=(1.0,))
    assert (found.right, found.fast[1.0].counted) == (1, pytest.approx(1 / 3))


@pytest.mark.parametrize(
    ("rows", "fast"),
    [
        ([row("a", speedup=2.0)], None),  # who asks for a forward only gets a pass for it
        ([row("a", "forward_only", 2.0, flags="quick")], None),
        ([row("a", "forward_only", 2.0, flags="quick"), row("b", "wrong_output")], None),
        ([row("a", "not_exercised", forward_solution_ms=1.0)], None),
        ([row("a", "forward_only", 2.0)], 0.0),  # a backward was asked for, and there is none
        ([row("a", "wrong_output", flags="quick")], 0.0),
        ([row("a", "wrong_gradient"), row("b", "compile_error")], 0.0),
    ],
)
def test_training_is_not_known_where_only_a_forward_was_asked_for(
    rows: list[Any], fast: float | None
) -> None:
    """It showed 0.00, as of solutions that all fail."""
    found = metrics.measure(rows, thresholds=(0.0, 1.0))
    training = next(s for s in found.sections if (s.mode, s.baseline) == ("training", "eager"))
    figures = [*training.fast.values(), training.passes[1]]
    assert [(f.counted, f.clean) for f in figures] == [(fast, fast)] * 3
    forward, _, cells, _ = metrics_tables.cells(found.sections)[1:]
    assert cells[4:] == (["-"] * 6 if fast is None else ["0", "0 + 0", "0.00", "0.00", "-", "0.00"])
    assert forward[4] != "-"
    assert ("not known" in " ".join(metrics_tables.notes(found))) == (fast is None)


def test_problems_without_a_row_count_as_wrong_where_they_are_named() -> None:
    names = ["level1/1_A", "level1/9_Z", "level2/3_G"]
    assert section(ROWS, "level1", problems=names).problems == 5
    assert section(ROWS, "level2", problems=names).problems == 1  # 3_G has no usable reference


def test_a_row_is_of_the_problem_that_has_its_level_and_number() -> None:
    """CUDA-L1's rows are of `level1/19`, KernelBench's file is `level1/19_ReLU`."""
    rows = [row("level1/19", speedup=2.0), row("level1/2", "skipped"), row("mine", speedup=2.0)]
    names = ["level1/19_ReLU", "level1/2_B", "level1/9_Z", "level2/19_A", "mine", "other"]
    assert section(rows, "level1", problems=names).problems == 2  # 9_Z is wrong, 2 says nothing
    assert section(rows, "all", problems=names).problems == 5


def test_the_first_sample_counts_or_the_best() -> None:
    rows = [
        row("a", "wrong_output", solution="sample_10"),
        row("a", speedup=1.5, solution="sample_2"),
        row("a", speedup=3.0, solution="sample_11"),
    ]
    first, best = (section(rows, samples=which, thresholds=(1.0, 2.0)) for which in metrics.SAMPLES)
    assert (first.fast[1.0].counted, first.fast[2.0].counted) == (1.0, 0.0)
    assert best.fast[2.0].counted == 1.0


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 1), (5, 2, 3), (6, 0, 2), (4, 4, 4), (7, 1, 7)])
def test_pass_at_k_is_the_share_of_all_draws(n: int, c: int, k: int) -> None:
    draws = list(itertools.combinations(range(n), k))
    expected = sum(any(i < c for i in draw) for draw in draws) / len(draws)
    assert metrics.pass_at_k(n, c, k) == pytest.approx(expected)


def test_pass_at_k_is_averaged_over_problems_with_enough_samples() -> None:
    status = ("pass", "wrong_output", "pass")
    rows = [row("a", s, solution=f"sample_{i}") for i, s in enumerate(status)]
    rows += [row("b", "wrong_output")]
    found = section(rows, ks=(1, 2))
    assert found.passes[1].counted == pytest.approx((2 / 3 + 0) / 2)
    assert (found.passes[2].counted, found.pass_problems[2]) == (pytest.approx(1.0), 1)


def test_devices_stand_apart() -> None:
    rows = [*ROWS, row("level1/1_A", "wrong_output", device_name="other")]
    found = {(s.device_name, s.level, s.problems) for s in metrics.measure(rows).sections}
    assert ("other", "level1", 4) in found


def test_nothing_to_count_is_no_section() -> None:
    assert metrics.measure([row("a", "skipped")]).sections == ()


def test_tables_show_both_figures() -> None:
    text = metrics_tables.markdown(metrics.measure(ROWS, thresholds=(1.0,)))
    line = next(line for line in text.splitlines() if line.startswith("| level1 | forward | eager"))
    assert line.split(" | ")[3:8] == ["4", "3", "1 + 1", "0.50 / 0.25", "2.00 / 4.00"]
    assert "Rows left out: 1 reference_error, 1 skipped." in text
    assert metrics_tables.plain(metrics.measure(ROWS))["left_out"]["skipped"] == 1
