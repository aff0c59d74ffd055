"""What is asked for follows what the reference allows; refusals, crashes and flags are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from support import HONEST, TINY, Bench

from harness.config import Settings
from harness.errors import ProblemError
from harness.judge import reference as reference_module
from harness.judge.checking import survey as survey_module
from harness.judge.checking.passes import PASSES
from harness.judge.checking.survey import Survey, survey, variations
from harness.judge.reference import Reference
from harness.records import Phase, Row, Status
from harness.shared.draws import Draw
from harness.shared.problem import Instance
from harness.shared.trial import Call, Trial

HONEST_FOLDER = Path(__file__).resolve().parents[2] / "honest"


def made(source: str, **changes: object) -> Reference:
    instance = Instance(
        source=source,
        path="p.py",
        size="full",
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    return Reference(instance, 0)


def surveyed(source: str) -> Survey:
    return survey(made(source), Settings(device="cpu"))


def left_out(source: str) -> set[tuple[str, str]]:
    return {(phase.value, name) for phase, name in surveyed(source).left_out}


def returns(expression: str, source: str = TINY) -> str:
    return source.replace("return ((x - y) ** 2).mean(dim=1)", f"return {expression}")


# --- what the reference allows ------------------------------------------------------------------


def test_an_expanded_input_is_refilled_like_any_other() -> None:
    expanded = "torch.randn(ROWS, COLUMNS), torch.randn(1, COLUMNS).expand(ROWS, COLUMNS)"
    source = TINY.replace("torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)", expanded)
    assert source != TINY
    found = surveyed(source)
    assert found.left_out == frozenset()
    assert found.mixable


AVERAGE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return self.norm(x) - self.mean


def get_inputs():
    return [torch.randn(16, 8)]
"""


@pytest.mark.parametrize(
    ("change", "drifts"),
    [
        ({}, True),
        ({" - self.mean": ""}, False),
        ({" - self.mean": " - 1e-4 * self.mean"}, True),
    ],
    ids=["average", "unread", "hardly"],
)
def test_a_reference_that_goes_by_the_calls_before_is_found_out(
    change: dict[str, str], drifts: bool
) -> None:
    source = AVERAGE
    for old, new in change.items():
        assert old in source
        source = source.replace(old, new)
    found = surveyed(source)
    assert found.drifts == drifts
    assert found.repeatable != drifts


def test_what_goes_by_the_calls_before_passes_and_says_that_timed_outputs_were_not_compared(
    bench: Bench,
) -> None:
    row = bench.judge(AVERAGE.replace("class Model(", "class ModelNew("), AVERAGE, profile=False)
    assert row.verdict.status is Status.PASS, row.verdict
    assert "timed_outputs_not_compared" in row.flags


@pytest.mark.parametrize(
    ("inputs", "output", "says"),
    [
        ("torch.eye(4).to_sparse()", "(x @ torch.ones(4, 4))", "the input x is not a dense"),
        ("{'a': [torch.eye(4).to_sparse()]}", "x['a'][0].to_dense()", r"input x\['a'\]\[0\] is"),
    ],
)
def test_inputs_that_cannot_be_handed_over_are_the_files_fault(
    inputs: str, output: str, says: str
) -> None:
    source = returns(output).replace("self, x, y", "self, x")
    source = source.replace("torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)", inputs)
    with pytest.raises(ProblemError, match=says):
        survey_module.require_comparable(made(source))


def test_a_sparse_gradient_is_the_files_fault() -> None:
    source = AVERAGE.replace("BatchNorm1d(8)", "Embedding(9, 8, sparse=True)")
    source = source.replace("x.detach().mean(0)", "self.mean").replace("randn(16, 8)", "arange(9)")
    with pytest.raises(ProblemError, match=r"the gradient of norm.weight is not a dense tensor"):
        surveyed(source)


def test_weights_that_nothing_initialised_are_the_files_fault() -> None:
    source = AVERAGE.replace("torch.zeros(8))", "torch.empty(8))")
    with pytest.raises(ProblemError, match=r"mean: NaN, .* \(torch.empty\)"):
        surveyed(source)


def test_a_weight_that_is_not_used_is_not_asked_for_alone() -> None:
    source = AVERAGE.replace("self.norm =", "self.idle = torch.nn.Linear(3, 3); self.norm =")
    found = surveyed(source.replace("self, x", "self, x, y").replace("(16, 8)]", "(16, 8)] * 2"))
    assert found.leaves == ("x", "norm.weight", "norm.bias")
    assert found.weights == ("norm.weight", "norm.bias")


def test_an_input_taken_out_of_its_container_is_a_change_of_the_inputs() -> None:
    source = returns("x.pop('a') * x['b']").replace("self, x, y", "self, x")
    given = "{'a': torch.randn(4), 'b': torch.randn(4)}"
    source = source.replace("torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)", given)
    assert surveyed(source).mutates


def test_an_oracle_of_another_shape_is_none() -> None:
    source = returns("[x] if x.dtype == torch.float64 else [x, y]")
    trial = Trial(calls=(Call(draw=Draw(seed=1)),))
    assert made(source).expected(trial, oracle=True).oracle is None
    assert made(TINY).expected(trial, oracle=True).oracle is not None


def test_a_plain_reference_allows_everything() -> None:
    found = surveyed(TINY)
    assert found.left_out == frozenset()
    assert found.outputs == ("output",)
    assert found.leaves == ("x", "y")
    assert not found.random
    assert not found.stateful
    assert found.finite


def test_a_variation_that_is_not_finite_is_left_out() -> None:
    positive = TINY.replace("[torch.randn(ROWS, COLUMNS)", "[torch.rand(ROWS, COLUMNS) + 0.1")
    assert left_out(returns("torch.log(x) + y", positive)) == {
        ("forward", "signs"),
        ("backward", "signs"),
    }


def test_inputs_as_given_are_asked_for_though_they_are_not_finite() -> None:
    found = surveyed(returns("torch.log(x) + y"))
    assert not found.finite
    assert (Phase.FORWARD, "as_given") not in found.left_out
    assert found.ask(Phase.FORWARD, 3, ("as_given", "large"), Settings()).variations == (
        "as_given",
    )


def test_a_variation_that_is_rounding_noise_is_left_out() -> None:
    cancelling = returns("torch.exp(torch.tanh(x)) + 1e4 * x.pow(3) - 1e4 * x * x * x + y / 1e9")
    assert ("forward", "large") in left_out(cancelling)


def test_a_pass_that_the_reference_does_not_take_is_left_out_in_both_phases() -> None:
    found = left_out(returns("(x.view(-1) * y.view(-1)).view(x.shape)"))
    assert found == {("forward", "strided"), ("backward", "strided")}


def test_what_needs_too_much_memory_is_left_out() -> None:
    with mock.patch.object(survey_module, "peak_share", side_effect=torch.OutOfMemoryError("x")):
        found = left_out(TINY)
    assert ("forward", "sequence") in found
    assert ("forward", "values") not in found


def test_an_output_without_gradient_asks_for_no_backward() -> None:
    found = surveyed(returns("(x > y)"))
    assert found.outputs == ()
    assert found.phases == (Phase.FORWARD,)


def test_only_outputs_that_carry_a_gradient_are_differentiated() -> None:
    assert surveyed(returns("x * y, (x > y), [x.detach(), x + y]")).outputs == (
        "output[0]",
        "output[2][1]",
    )


def test_a_reference_that_draws_random_numbers_is_told_from_one_that_contradicts_itself() -> None:
    assert surveyed(returns("x * torch.rand(x.shape) + y")).random
    source = returns("x * next(numbers) + y") + "\nimport itertools\nnumbers = itertools.count()\n"
    with pytest.raises(ProblemError, match=r"two calls of the reference .* different results"):
        surveyed(source)


def test_a_reference_that_changes_its_inputs_is_seen_to_do_so() -> None:
    assert not surveyed(TINY).mutates
    source = returns("x.detach().mul_(0.5) + y") + "\nGRAD_INPUTS = ()\n"
    found = surveyed(source)
    assert found.mutates
    assert not found.random
    assert not found.repeatable


def test_running_statistics_are_no_contradiction() -> None:
    source = (Path(__file__).parents[2] / "mutants" / "problems" / "batch_norm.py").read_text()
    found = surveyed(source)
    assert found.stateful
    assert not found.random
    assert found.left_out == frozenset()


def test_a_problem_may_name_the_variations_that_its_inputs_allow() -> None:
    reference = made(TINY + "\nVARIATIONS = ('region', 'scaled')\n")
    assert variations(reference, Settings()) == ("as_given", "scaled", "region")
    with pytest.raises(ProblemError, match=r"VARIATIONS names odd; there are as_given"):
        made(TINY + "\nVARIATIONS = ('odd',)\n")


# --- where, and how often -----------------------------------------------------------------------


def test_each_variation_is_met_at_the_small_size_however_few_trials_are_set() -> None:
    settings = Settings(trials=1)
    names = variations(made(TINY), settings)
    asked = surveyed(TINY).ask(Phase.FORWARD, 0, names, settings)
    (values,) = [p for p in PASSES if p.name == "values"]
    drawn = [trial.calls[0].draw.variation for trial in values.trials(asked)]
    assert drawn == list(names)


def test_trials_are_never_the_same_twice() -> None:
    asked = surveyed(TINY).ask(Phase.BACKWARD, 0, ("as_given",), Settings())
    for one in PASSES:
        if Phase.BACKWARD in one.phases:
            first, second = list(one.trials(asked)), list(one.trials(asked))
            assert not set(first) & set(second), one.name


# --- what is told -------------------------------------------------------------------------------


def refusing(bench: Bench, **settings: object) -> Row:
    source = HONEST.replace("return", "x.view(-1); return")
    return bench.judge(source, modes=(), **settings)


def test_raising_for_what_is_not_contiguous_is_a_flag(bench: Bench) -> None:
    row = refusing(bench)
    assert row.verdict.status is Status.PASS, row.verdict
    assert "contiguous_only" in row.flags
    assert row.modes == {}


def test_raising_for_what_is_not_contiguous_may_be_made_a_failure(bench: Bench) -> None:
    verdict = refusing(bench, require_views=True).verdict
    assert verdict.status is Status.RUNTIME_ERROR
    assert verdict.message.startswith("for inputs that are not contiguous: RuntimeError: view size")


def test_a_crash_is_told_with_the_pass_in_which_it_came(bench: Bench) -> None:
    source = "import os\n" + HONEST.replace("return", "x.is_contiguous() or os.abort(); return")
    verdict = bench.judge(source, modes=()).verdict
    assert verdict.status is Status.CRASH
    assert "for inputs that are not contiguous: the process died of SIGABRT" in verdict.message


def test_a_backward_that_is_missing_for_one_leaf_alone_is_a_wrong_gradient(bench: Bench) -> None:
    source = HONEST.replace("return", "y = y if x.requires_grad else y.detach(); return")
    verdict = bench.judge(source, modes=()).verdict
    assert verdict.status is Status.WRONG_GRADIENT
    assert verdict.message.startswith("where one leaf alone requires a gradient: the output has no")


def test_what_the_reference_does_not_take_is_not_asked_and_flagged(bench: Bench) -> None:
    problem = returns("(x.view(-1) * y.view(-1)).view(x.shape)")
    dense = "torch.as_strided(x, x.shape, (x.shape[1], 1), x.storage_offset()) * y"
    solution = HONEST.replace("((x - y) ** 2).mean(dim=1)", dense)
    row = bench.judge(solution, problem, modes=())
    assert row.verdict.status is Status.PASS, row.verdict
    assert "left_out:strided" in row.flags


@pytest.mark.parametrize("kept", [False, True])
def test_where_five_calls_do_not_fit_two_are_asked_for(bench: Bench, kept: bool) -> None:
    def admits(reference: Any, rules: Any, check: Any, trial: Trial, *, oracle: bool) -> bool:
        return len(trial.calls) < 5

    remembers = "return vars(x).setdefault('kept', ((x - y) ** 2).mean(dim=1))"
    source = HONEST.replace("return ((x - y) ** 2).mean(dim=1)", remembers) if kept else HONEST
    assert (source != HONEST) is kept
    with mock.patch.object(survey_module, "_admits", admits):
        row = bench.judge(source, modes=(), variations=("as_given",), trials=1, layouts=())
    assert "left_out:sequence" in row.flags
    if kept:
        assert row.verdict.message.startswith("over two calls: call 2: output: "), row.verdict
    else:
        assert row.verdict.status is Status.PASS, row.verdict


def test_where_no_float64_reference_fits_the_row_says_so(bench: Bench) -> None:
    with mock.patch.object(reference_module, "ORACLE_FACTOR", 1 << 60):
        row = bench.judge(HONEST, modes=())
    assert row.verdict.status is Status.PASS, row.verdict
    assert "no_float64:full" in row.flags
    assert row.error_ratio is None


def test_honest_code_has_no_flags(bench: Bench) -> None:
    assert bench.judge(HONEST, modes=()).flags == ()


def test_an_output_whose_shape_hangs_on_values_is_timed_and_looked_at(bench: Bench) -> None:
    source = returns("(x * y)[x > 0]")
    options = {"modes": ("forward_backward",), "profile": False}
    row = bench.judge(source.replace("class Model(", "class ModelNew("), source, **options)
    assert row.verdict.status is Status.PASS, row.verdict
