"""Rules for results: gradients by name, what a call must not touch, what is small is small."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.config import Settings
from harness.judge.checking.rules import Rules
from harness.records import Check
from harness.shared.problem import Instance
from harness.shared.trial import Played, Result

PROBLEM = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(3)]
"""


def rules(extra: str = "", **settings: Any) -> Rules:
    instance = Instance(
        source=PROBLEM + extra,
        path="p.py",
        size="full",
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    return Rules.of(instance, Settings(**settings))


def problems(checks: Any) -> list[str]:
    return [check.problem for check in checks if check.problem]


def with_grads(**grads: torch.Tensor | None) -> Result:
    return Result(output=torch.ones(2), grads=dict(grads), carries={"output": True})


# --- tolerances ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "as_given", "varied"), [(3, 1, 1), (12, 0, 1), (40, 0, 0)])
def test_of_varied_inputs_few_elements_tell_how_far_eager_is_off(
    error: float, as_given: int, varied: int
) -> None:
    """A tanh of large inputs, but for one element: eager is off by `unit` there, by chance."""
    oracle, unit = torch.ones(1000, dtype=torch.float64), 1e-3
    oracle[7] = 0.05
    wanted, got = oracle.float(), oracle.float()
    wanted[7] += unit
    got[7] -= error * unit
    usual = rules(error_ratio_limit=1e6)
    assert (not problems(usual.output(got, wanted, oracle))) == as_given
    assert (not problems(usual.varied.output(got, wanted, oracle))) == varied
    assert problems(usual.varied.output(torch.zeros(1000), wanted, oracle))


def test_a_files_own_tolerances_are_fixed_and_replace_the_error_ratio_for_that_dtype() -> None:
    own = rules("TOLERANCES = {'float32': (1e-4, 1e-2)}")
    wanted, oracle = torch.full((9,), 1e-6), torch.full((9,), 1e-6, dtype=torch.float64)
    assert not problems(own.output(torch.zeros(9), wanted, oracle))
    assert problems(rules().output(torch.zeros(9), wanted, oracle))
    assert not own.limits_ratio(torch.float32)
    assert own.limits_ratio(torch.float16)


def test_a_limit_of_the_settings_holds_for_every_dtype() -> None:
    own = rules("TOLERANCES = {'float32': (1e-4, 1e-2)}", error_ratio_limit=5.0)
    assert own.limits_ratio(torch.float32)
    assert own.limits_ratio(torch.float64)


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "wanted", "text"),
    [
        (
            None,
            torch.ones(2, 3),
            "grad w: is missing (None); the reference has one of shape (2, 3)",
        ),
        (torch.zeros(3), torch.ones(3), "grad w: 3 of 3 elements wrong (100%)"),
        (torch.ones(3), None, "grad w: is not zero; the reference has none"),
        (7, torch.ones(3), "grad w: type int, but the reference gives a float32 tensor"),
    ],
    ids=["None", "zeros", "one too many", "no tensor"],
)
def test_gradients_that_differ_are_told_apart(got: Any, wanted: Any, text: str) -> None:
    (problem,) = problems(rules().grads(with_grads(w=got), with_grads(w=wanted)))
    assert problem.startswith(text)


def test_a_gradient_that_was_not_answered_is_missing() -> None:
    (problem,) = problems(rules().grads(with_grads(), with_grads(w=torch.ones(1))))
    assert problem.startswith("grad w: is missing")


@pytest.mark.parametrize("got", [None, torch.zeros(3)], ids=["None", "zero"])
def test_none_and_zero_are_the_same_where_the_reference_has_none(got: torch.Tensor | None) -> None:
    assert not problems(rules().grads(with_grads(w=got), with_grads(w=None)))


def test_an_output_that_carries_no_gradient_is_named() -> None:
    got = Result(output=torch.ones(2), carries={"output[0]": True})
    wanted = Result(output=torch.ones(2), carries={"output[0]": True, "output[1]": True})
    assert problems(rules().grads(got, wanted)) == [
        "output[1]: carries no gradient; the reference's does"
    ]


def noise() -> tuple[Result, Result]:
    """A gradient that is zero but for rounding: eager's and the true one."""
    eager = 1e-7 * torch.randn(100, generator=torch.Generator().manual_seed(0))
    return with_grads(b=eager), with_grads(b=1e-19 * torch.ones(100, dtype=torch.float64))


@pytest.mark.parametrize("got", [torch.zeros(100), 3e-7 * torch.ones(100)], ids=["zeros", "noise"])
def test_a_gradient_that_is_noise_is_right_about_as_small(got: torch.Tensor) -> None:
    wanted, oracle = noise()
    assert not problems(rules().grads(with_grads(b=got), wanted, oracle))
    assert rules().is_noise(wanted.leaves()["grad b"], oracle.leaves()["grad b"])


def test_a_gradient_that_should_be_noise_and_is_not_is_wrong() -> None:
    wanted, oracle = noise()
    assert problems(rules().grads(with_grads(b=torch.full((100,), 1e-4)), wanted, oracle))


def test_what_is_small_beside_the_usual_gradient_passes_where_that_is_given() -> None:
    got, wanted = with_grads(w=torch.full((9,), 1e-7)), with_grads(w=torch.zeros(9))
    usual = with_grads(w=torch.ones(9))
    assert problems(rules().grads(got, wanted))
    assert not problems(rules().grads(got, wanted, None, usual))
    assert problems(rules().grads(with_grads(w=torch.ones(9) / 5), wanted, None, usual))


def forgiven(got: float, wanted: float, usual: float) -> bool:
    results = [with_grads(w=torch.full((9,), value)) for value in (got, wanted, usual)]
    checks: list[Check] = list(rules().grads(results[0], results[1]))
    assert problems(checks)
    return not problems(rules().forgiving(checks, *results))


def test_what_has_vanished_is_judged_by_its_usual_size() -> None:
    assert forgiven(3e-30, 1e-31, usual=1e-2)
    assert forgiven(1e-9, 0.0, usual=1e-2)
    assert not forgiven(1e-6, 1e-31, usual=1e-2)
    assert not forgiven(2e-3, 1e-3, usual=1e-2)


# --- side effects -------------------------------------------------------------------------------


def touched(**changes: dict[str, torch.Tensor]) -> list[str]:
    x, grad = torch.arange(4.0), torch.ones(2)
    buffer = torch.tensor([torch.nan, 1.0, torch.nan])
    facts = {"inputs": {"x": x}, "grad_outputs": {"output": grad}, "buffers": {"x": buffer}}
    wanted = Result(**facts)  # type: ignore[arg-type]
    return problems(rules().untouched(Result(**(facts | changes)), wanted))  # type: ignore[arg-type]


def test_inputs_gradients_and_memory_around_them_are_as_they_were() -> None:
    assert touched() == []
    assert touched(inputs={"x": torch.zeros(4)}) == [
        "the input x was changed in place, which the reference does not do"
    ]
    assert touched(grad_outputs={"output": torch.zeros(2)}) == [
        "the gradient of output was changed in place, which the reference does not do"
    ]
    (text,) = touched(buffers={"x": torch.tensor([torch.nan, 1.0, 0.0])})
    assert text.startswith("memory outside of the input x was written")
    assert touched(inputs={}) == touched(inputs={"x": torch.zeros(4)})


def test_rounding_of_how_an_input_was_drawn_is_no_change() -> None:
    assert touched(inputs={"x": torch.arange(4.0) * (1 + 1e-7)}) == []


def played(*outputs: torch.Tensor, later: list[torch.Tensor] | None = None, **state: Any) -> Played:
    results = [Result(output=output) for output in outputs]
    return Played(results=results, later=list(outputs) if later is None else later, state=state)


def test_an_output_that_changed_later_is_told_unless_the_references_changes_alike() -> None:
    one, two = torch.ones(3), torch.full((3,), 2.0)
    wanted = played(one, two)
    assert not problems(rules().kept(played(one, two), wanted))
    (text,) = problems(rules().kept(played(one, two, later=[two, two]), wanted))
    assert text.startswith("the output of call 1 was changed by later calls")
    view = played(one, two, later=[two, two])
    assert not problems(rules().kept(played(one, two, later=[two, two]), view))
    assert not problems(rules().kept(played(one, two), view))


def test_an_output_is_kept_that_is_what_it_was_whatever_the_reference_gives() -> None:
    exact, rough = torch.ones(3), torch.full((3,), 1.1)  # right by an oracle that is not here
    assert not problems(rules().kept(played(rough, rough), played(exact, exact)))


def test_buffers_are_compared_but_for_those_that_count() -> None:
    wanted = played(mean=torch.ones(2), count=torch.tensor(3))
    assert not problems(rules().state(played(mean=torch.ones(2), count=torch.tensor(0)), wanted))
    assert not problems(rules().state(played(mean=torch.ones(2)), wanted))
    (text,) = problems(rules().state(played(mean=torch.zeros(2)), wanted))
    assert text.startswith("mean after the call: 2 of 2 elements wrong")
    assert problems(rules().state(played(), wanted))
    assert not problems(rules().state(played(), wanted, constants=("mean",)))
    assert problems(rules().state(played(mean=torch.zeros(2)), wanted, constants=("mean",)))


def test_spread_is_between_the_first_call_and_the_last() -> None:
    assert rules().spread(played(torch.ones(3), torch.zeros(3), torch.ones(3))) == 0
    assert rules().spread(played(torch.ones(3), torch.full((3,), 1.5))) == 0.5
    assert rules().spread(played(torch.empty(0), torch.empty(0))) == 0
