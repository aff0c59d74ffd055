"""The problem files: sizes, inputs that meet every branch, outputs that move, finite gradients.

Whether each tells right from wrong is for `run_eval.py lint --all --strict`, which takes minutes.
"""

from __future__ import annotations

import ast
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import footprint
from harness.judge.reference import Reference
from harness.shared.draws import GradDraw
from harness.shared.problem import FULL, Draw, Instance, sizes

LOSSES = ("kl_div", "mse", "smooth_l1")
SMALL_SIZES = ("smoke", "odd")
SEEDS = range(12)
FOLDER = Path(__file__).parent.parent / "problems"
ALL = sorted(path.stem for path in FOLDER.glob("*.py"))


def instance(problem: str, size: str, dtype: torch.dtype = torch.float32) -> Instance:
    path = FOLDER / f"{problem}.py"
    return Instance(
        source=path.read_text(), path=str(path), size=size, dtype=dtype, device=torch.device("cpu")
    )


def constants(problem: str, size: str) -> tuple[int, int]:
    module: dict[str, Any] = instance(problem, size)._module
    return module["ROWS"], module["COLUMNS"]


# --- every problem ------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ALL)
def test_every_problem_says_what_is_hard_and_what_its_limit_is(problem: str) -> None:
    source = (FOLDER / f"{problem}.py").read_text()
    assert set(sizes(source)) >= {FULL, *SMALL_SIZES}
    text = ast.get_docstring(ast.parse(source)) or ""
    hard, _, limit = text.partition("Hard:")[2].partition("Limit, at size `full`")
    assert len(hard.splitlines()) >= 2
    assert re.search(r"\d (GiB|GFLOP)", limit)


@pytest.mark.parametrize("problem", ALL)
def test_full_fits_a_card_of_24_gb_or_there_is_a_size_that_does(problem: str) -> None:
    """As `--size auto` reckons: the reference in training takes at most 45 % of the card."""
    source = (FOLDER / f"{problem}.py").read_text()
    fitting = FULL if problem not in ("mse", "smooth_l1") else "medium"
    peak = footprint.peak_bytes(source=source, path=problem, size=fitting, dtype=torch.float32)
    assert peak is not None
    assert 64 * 2**20 < peak < 0.45 * 24e9
    assert fitting == FULL or "card of 24 GB" in source


@pytest.mark.parametrize("problem", ALL)
def test_odd_has_no_dimension_that_is_a_multiple_of_32(problem: str) -> None:
    drawn = instance(problem, "odd").inputs(Draw(seed=0))
    assert all(side % 32 for x in drawn for side in x.shape)


@pytest.mark.parametrize("size", SMALL_SIZES)
@pytest.mark.parametrize("problem", ALL)
def test_results_repeat_for_a_seed_move_with_it_and_are_finite(problem: str, size: str) -> None:
    """In place too: what an optimiser's step leaves in its inputs is its output."""
    first, again, other = (played(problem, size, seed) for seed in (3, 3, 4))
    assert first.keys() == again.keys() == other.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(again[name], tensor, msg=name)
        moved = tensor.numel() != other[name].numel() or not torch.allclose(tensor, other[name])
        assert moved, name
        if tensor.is_floating_point():
            assert torch.isfinite(tensor).all(), name
            assert tensor.count_nonzero(), name
    assert problem == "adamw_step" or any(name.startswith("grad") for name in first)


@pytest.mark.parametrize("problem", ALL)
def test_half_precision_is_finite(problem: str) -> None:
    for name, tensor in played(problem, "odd", 0, torch.bfloat16).items():
        assert not tensor.is_floating_point() or torch.isfinite(tensor).all(), name


def played(
    problem: str, size: str, seed: int, dtype: torch.dtype = torch.float32
) -> dict[str, torch.Tensor]:
    """Outputs and gradients of one call, by name."""
    grad = None if problem == "adamw_step" else GradDraw(seed=seed)
    result = Reference(instance(problem, size, dtype), 0).call(Draw(seed=seed), grad)
    return result.leaves()


# --- the three losses ---------------------------------------------------------------------------


@pytest.mark.parametrize("problem", LOSSES)
def test_the_losses_have_a_size_huge_of_2_to_the_31_elements(problem: str) -> None:
    assert {FULL, *SMALL_SIZES, "huge"} <= set(sizes((FOLDER / f"{problem}.py").read_text()))
    rows, columns = constants(problem, "huge")
    assert 2**31 < rows * columns < 1.001 * 2**31


def test_full_sizes_are_those_that_were_asked_for() -> None:
    assert constants("kl_div", FULL) == (16384, 16384)
    assert constants("mse", FULL) == constants("smooth_l1", FULL) == (32768, 32768)


@pytest.mark.parametrize("problem", LOSSES)
def test_odd_has_no_even_dimension_so_vector_loads_meet_tails(problem: str) -> None:
    assert all(constant % 2 == 1 for constant in constants(problem, "odd"))


@pytest.mark.parametrize("problem", LOSSES)
def test_only_the_gradient_of_predictions_is_asked_for(problem: str) -> None:
    assert instance(problem, "odd").grad_inputs == ("predictions",)


@pytest.mark.parametrize("size", SMALL_SIZES)
@pytest.mark.parametrize("problem", LOSSES)
def test_inputs_have_the_declared_shape_and_repeat_for_a_seed(problem: str, size: str) -> None:
    problem_instance = instance(problem, size)
    first = problem_instance.inputs(Draw(seed=3))
    again = problem_instance.inputs(Draw(seed=3))
    other = problem_instance.inputs(Draw(seed=4))
    assert [tuple(x.shape) for x in first] == [constants(problem, size)] * 2
    assert all(x.is_contiguous() and x.dtype == torch.float32 for x in first)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("size", SMALL_SIZES)
@pytest.mark.parametrize("problem", LOSSES)
def test_the_output_moves_with_the_seed_so_a_constant_fails(problem: str, size: str) -> None:
    problem_instance = instance(problem, size)
    model = problem_instance.model(0)
    outputs = [model(*problem_instance.inputs(Draw(seed=seed))).item() for seed in SEEDS]
    assert statistics.stdev(outputs) / statistics.mean(outputs) > 0.2


@pytest.mark.parametrize("stride", [(2, 1), (1, 2)], ids=["every_other_row", "every_other_column"])
@pytest.mark.parametrize("problem", LOSSES)
def test_no_half_of_the_input_stands_for_the_whole(problem: str, stride: tuple[int, int]) -> None:
    """A kernel that reads half of the elements must be off by far more than a tolerance."""
    problem_instance = instance(problem, "smoke")
    rows, columns = stride
    errors = []
    for seed in range(4):
        inputs = problem_instance.inputs(Draw(seed=seed))
        whole = problem_instance.model(0)(*inputs).item()
        half = problem_instance.model(0)(*(x[::rows, ::columns] for x in inputs)).item()
        if problem == "kl_div" and columns == 2:
            half *= 2  # a mean over rows, and half of each row's terms
        errors.append(abs(half / whole - 1))
    assert statistics.median(errors) > 1e-3


@pytest.mark.parametrize("size", SMALL_SIZES)
@pytest.mark.parametrize("problem", LOSSES)
def test_gradients_are_finite_and_not_constant(problem: str, size: str) -> None:
    problem_instance = instance(problem, size)
    predictions, targets = problem_instance.inputs(Draw(seed=0))
    predictions.requires_grad_()
    output = problem_instance.model(0)(predictions, targets)
    (gradient,) = torch.autograd.grad(output, predictions)
    assert torch.isfinite(gradient).all()
    assert gradient.std() > 0.1 * gradient.abs().mean()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("problem", LOSSES)
def test_reference_is_finite_in_half_precision(problem: str, dtype: torch.dtype) -> None:
    problem_instance = instance(problem, "odd", dtype)
    for seed in range(4):
        inputs = problem_instance.inputs(Draw(seed=seed))
        assert torch.isfinite(problem_instance.model(0)(*inputs))


@pytest.mark.parametrize("size", SMALL_SIZES)
def test_smooth_l1_meets_both_branches_at_every_seed(size: str) -> None:
    problem_instance = instance("smooth_l1", size)
    for seed in SEEDS:
        predictions, targets = problem_instance.inputs(Draw(seed=seed))
        difference = predictions - targets
        quadratic = (difference.abs() < 1).float().mean().item()
        assert 0.1 < quadratic < 0.9
        for linear in (difference >= 1, difference <= -1):  # both signs of the derivative
            assert linear.float().mean() > 0.02


@pytest.mark.parametrize("size", SMALL_SIZES)
def test_kl_div_rows_are_distributions(size: str) -> None:
    for seed in SEEDS:
        for side in instance("kl_div", size).inputs(Draw(seed=seed)):
            assert (side >= 0).all()
            sums = side.double().sum(dim=-1)
            torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-5)


@pytest.mark.parametrize("variation", ["as_given", "heavy_tailed", "scaled"])
def test_kl_div_predictions_are_positive_in_float16_at_full_width(
    monkeypatch: pytest.MonkeyPatch, variation: str
) -> None:
    """log(0) would be infinite. 16384 columns make the smallest values, so few rows will do."""
    problem_instance = instance("kl_div", FULL, torch.float16)
    monkeypatch.setitem(problem_instance._module, "ROWS", 64)
    for seed in range(16):
        predictions, _ = problem_instance.inputs(Draw(seed=seed, variation=variation))
        assert predictions.shape == (64, 16384)
        assert predictions.dtype == torch.float16
        assert (predictions > 0).all()


def test_kl_div_tells_exchanged_arguments_apart() -> None:
    """Between two softmaxes of normal logits the divergence is the same either way round."""
    problem_instance = instance("kl_div", "smoke")
    model = problem_instance.model(0)
    for seed in SEEDS:
        predictions, targets = problem_instance.inputs(Draw(seed=seed))
        exchanged, right = model(targets, predictions), model(predictions, targets)
        assert abs(exchanged / right - 1) > 5e-3
