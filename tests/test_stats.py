"""Ratios and intervals against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from harness.stats import (
    Interval,
    fast,
    fastest,
    quotient,
    ratio_interval,
    trimmed_mean,
    typical,
)


def test_a_trimmed_mean_leaves_out_a_quarter_at_each_end() -> None:
    assert trimmed_mean([100.0, 1.0, 2.0, -50.0]) == 1.5
    assert trimmed_mean([8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]) == 4.5


def test_what_is_left_out_is_rounded_down() -> None:
    assert trimmed_mean([1.0, 2.0, 9.0]) == 4.0
    assert trimmed_mean([0.0, 1.0, 2.0, 3.0, 100.0]) == 2.0
    assert trimmed_mean([5.0]) == 5.0


def test_one_disturbed_block_in_four_does_not_move_an_epoch() -> None:
    assert trimmed_mean([1.0, 1.0, 1.0, 900.0]) == 1.0


def test_no_values_have_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        trimmed_mean([])


def test_the_interval_is_student_t_over_epochs() -> None:
    # Means 0.1, 0.2, 0.3: center 0.2, standard deviation 0.1, t(0.975, 2) = 4.302653.
    interval = ratio_interval([[0.1], [0.2], [0.3]])
    half = 4.302652729911275 * 0.1 / math.sqrt(3)
    assert interval.ratio == pytest.approx(math.exp(0.2))
    assert interval.low == pytest.approx(math.exp(0.2 - half))
    assert interval.high == pytest.approx(math.exp(0.2 + half))
    assert interval.half_width == pytest.approx(math.sinh(half))


def test_two_epochs_use_t_of_one_degree_of_freedom() -> None:
    # Means 0 and 0.2: standard deviation 0.1414214, its error 0.1, t(0.975, 1) = 12.706205.
    interval = ratio_interval([[0.0], [0.2]])
    assert interval.low == pytest.approx(math.exp(0.1 - 1.2706204736))
    assert interval.high == pytest.approx(math.exp(0.1 + 1.2706204736))


def test_epochs_count_and_not_blocks() -> None:
    few = ratio_interval([[0.1], [0.2], [0.3]])
    many = ratio_interval([[0.1] * 50, [0.2] * 50, [0.3] * 50])
    assert (many.ratio, many.low, many.high) == pytest.approx((few.ratio, few.low, few.high))


def test_epochs_that_agree_have_an_interval_of_no_width() -> None:
    interval = ratio_interval([[math.log(2)]] * 5)
    assert (interval.low, interval.ratio, interval.high) == pytest.approx((2, 2, 2))
    assert interval.half_width == pytest.approx(0)


def test_one_epoch_has_no_interval_and_is_never_narrow_enough() -> None:
    interval = ratio_interval([[0.0, 0.0, 0.0]])
    assert interval == Interval(ratio=1.0, low=None, high=None)
    assert interval.half_width == math.inf


def test_empty_epochs_are_left_out() -> None:
    assert ratio_interval([[], [0.1], [], [0.3]]) == ratio_interval([[0.1], [0.3]])
    with pytest.raises(ValueError, match="no epoch"):
        ratio_interval([[], []])
    with pytest.raises(ValueError, match="no epoch"):
        ratio_interval([])


def test_a_quotient_adds_relative_half_widths_as_a_root_of_squares() -> None:
    first = Interval(ratio=4.0, low=4.0 / math.exp(0.03), high=4.0 * math.exp(0.03))
    second = Interval(ratio=2.0, low=2.0 / math.exp(0.04), high=2.0 * math.exp(0.04))
    over = quotient(first, second)
    assert over.ratio == 2.0
    assert over.low == pytest.approx(2.0 * math.exp(-0.05))
    assert over.high == pytest.approx(2.0 * math.exp(0.05))


def test_a_quotient_has_no_interval_where_either_side_has_none() -> None:
    whole, bare = Interval(ratio=2.0, low=1.0, high=4.0), Interval(ratio=4.0, low=None, high=None)
    assert quotient(whole, bare) == Interval(ratio=0.5, low=None, high=None)
    assert quotient(bare, whole) == Interval(ratio=2.0, low=None, high=None)


def test_a_typical_time_is_the_median_of_medians() -> None:
    assert typical([[1.0, 2.0, 90.0], [4.0, 6.0], [], [3.0]]) == 3.0
    with pytest.raises(ValueError, match="no samples"):
        typical([[], []])


def test_the_fastest_are_a_fifth_and_at_least_one() -> None:
    assert fastest([5.0]) == 5.0
    assert fastest([9.0, 2.0, 7.0]) == 2.0
    assert fastest([*range(100, 108), 2.0, 4.0]) == 3.0
    assert fast([[1.0], [], [4.0], [3.0]]) == 3.0
    for wrong in (fastest, fast):
        with pytest.raises(ValueError, match=r"no (values|samples)"):
            wrong([])
