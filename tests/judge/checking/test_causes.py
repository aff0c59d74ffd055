"""Each likely cause of a wrong result, with a result that has it; none is made up."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.judge.checking import causes, elements
from harness.judge.checking.compare import compare


def altered(change: Any) -> str:
    """The problem told of a tensor that has been changed."""
    torch.manual_seed(7)
    x = torch.randn(64, 64)
    (check,) = compare(change(x.clone()), x, root="output")
    return str(check.problem)


def tail(x: torch.Tensor) -> torch.Tensor:
    x[:, 61:] = 7.0
    return x


def past(x: torch.Tensor) -> torch.Tensor:
    x.view(-1)[1000:] = 0.0
    return x


def stretch(x: torch.Tensor) -> torch.Tensor:
    x.view(-1)[100:300] += 1.0
    return x


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (torch.zeros_like, "all zeros"),
        (torch.ones_like, "the same value 1 everywhere"),
        (lambda x: x * 0.25, "everywhere 0.25x the reference (1/4)"),
        (lambda x: x * 3, "everywhere 3x the reference"),
        (lambda x: -x, "sign flipped"),
        (lambda x: x + 1.5, "everywhere the reference +1.5"),
        (lambda x: x.mT.contiguous(), "the reference transposed"),
        (past, "right up to flat index 1000, wrong past it"),
        (stretch, "wrong only in flat indices 100 to 299"),
        (tail, "wrong only where index 1 is 61 to 63 of 0 to 63"),
        (torch.abs, "wrong only where the reference is negative"),
        (lambda x: x.clamp(-1, 1), "right only where |reference| is at most 1.00"),
        (lambda x: torch.where(x.abs() < 0.5, 0.0, x), "wrong only where |reference| is at most"),
        (lambda x: x.bfloat16().float(), "every value is a bfloat16 number"),
    ],
)
def test_a_cause_is_named(change: Any, text: str) -> None:
    assert text in altered(change)


def unwritten(*where: Any) -> Any:
    def change(x: torch.Tensor) -> torch.Tensor:
        x[where] = float("nan")
        return x

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (unwritten(..., slice(61, None)), "index 1 is 61 to 63 of 0 to 63: never written?"),
        (unwritten(..., 63), "wrong only where index 1 is 63 of 0 to 63: never written?"),
        (unwritten(slice(40, None)), "right up to flat index 2560, wrong past it: never written?"),
        (lambda x: torch.where(x > 1.5, float("nan"), x), "where the reference has none"),
        (lambda x: x * float("nan"), "NaN in 4096 where the reference has none"),
        (lambda x: torch.cat([x[:-8], x[-8:] / 0]), "is finite; right up to flat index 3584"),
    ],
)
def test_what_is_not_finite_has_a_place_too(change: Any, text: str) -> None:
    """Memory holds NaN before a call: a tail that no tile covers is NaN, and which tail it is helps
    more than that it is NaN."""
    assert text in altered(change)


@pytest.mark.parametrize(
    ("actual", "text"),
    [
        (0.0, "zero: was it ever written?"),
        (2.0, "everywhere 0.857898x"),
        (2.328125, "every value is a bfloat16 number"),
    ],
)
def test_of_a_single_number_too(actual: float, text: str) -> None:
    """0 and 2 are numbers of every type: that says nothing of how they came about."""
    (check,) = compare(torch.tensor(actual), torch.tensor(2.33128), root="output")
    assert text in str(check.problem)


def test_a_coarse_number_far_off_is_not_called_rounded() -> None:
    wrong = altered(lambda x: (x * 4 + torch.randn_like(x)).round())
    assert "number" not in wrong.partition(";")[2]


def test_no_cause_is_made_up() -> None:
    assert altered(lambda x: torch.randn(64, 64)).count(";") == 0


def test_an_index_near_two_to_the_31_is_named() -> None:
    fault = causes.Fault(
        total=2**31 + 9, wrong=9, first=2**31, last=2**31 + 8, worst=None,
        only_nan=0, only_inf=0, lost=0,
    )  # fmt: skip
    x = torch.ones(2)
    text = causes._stretch(causes.Sample.of(x, x, 0.0, 0.0), fault)
    assert text is not None
    assert "near 2^31, a 32-bit index that overflows?" in text


def test_causes_hold_for_a_sample_of_a_large_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "SAMPLE", 500)
    assert "everywhere 0.25x" in altered(lambda x: x * 0.25)
    assert "transposed" in altered(lambda x: x.mT.contiguous())
    assert "wrong only where index 1 is 61 to 63" in altered(tail)
