"""Layouts hold the same values elsewhere in memory; what lies around them tells who touched it."""

from __future__ import annotations

import pytest
import torch

from harness.shared.draws import (
    GRAD_LAYOUTS,
    GUARD,
    LAYOUTS,
    VARIATIONS,
    Draw,
    GradDraw,
    grad_outputs,
    lay_out,
    surroundings,
    vary,
)

SHAPES = [(5, 7), (6,), (3, 1), (1, 4), (2, 3, 4), (), (0, 3)]


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    (found,) = lay_out([tensor], Draw(seed=0, layout=layout))
    assert isinstance(found, torch.Tensor)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_keeps_values_shape_and_dtype(
    layout: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    tensor = (10 * torch.randn(shape)).to(dtype)
    found = laid_out(tensor, layout)
    assert found.dtype is dtype
    assert torch.equal(found, tensor)


@pytest.mark.parametrize("shape", [(5, 7), (6,), (3, 1), (2, 3, 4)], ids=str)
def test_strided_is_not_contiguous_and_its_gaps_are_nan(shape: tuple[int, ...]) -> None:
    found = laid_out(torch.randn(shape), "strided")
    assert not found.is_contiguous()
    buffer = surroundings(found)
    assert buffer[0::2].isnan().all()
    assert torch.equal(buffer[~buffer.isnan()], found.reshape(-1))
    if len(shape) > 1 and shape[-1] > 1:
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            found.view(-1)


def test_guarded_is_contiguous_aligned_and_between_nan() -> None:
    found = laid_out(torch.randn(5, 7), "guarded")
    assert found.is_contiguous()
    assert found.storage_offset() * found.element_size() % 512 == 0
    buffer = surroundings(found)
    assert len(buffer) == 35 + 2 * GUARD
    assert buffer[:GUARD].isnan().all()
    assert buffer[GUARD + 35 :].isnan().all()


def test_misaligned_is_contiguous_one_element_further() -> None:
    found = laid_out(torch.randn(5, 7), "misaligned")
    assert found.is_contiguous()
    assert found.data_ptr() % 16 == 4


def test_integers_have_only_their_own_values_around_them() -> None:
    """They are often indices: one out of range would crash a kernel that reads too far."""
    found = laid_out(torch.tensor([3, 5, 4]), "guarded")
    assert set(surroundings(found).tolist()) == {3, 4, 5}


def test_a_layout_reaches_into_containers_and_leaves_numbers_alone() -> None:
    inputs = [torch.ones(2, 2), [torch.ones(3), 5], {"k": torch.ones(4)}, None]
    found = lay_out(inputs, Draw(seed=0, layout="strided"))
    assert not found[0].is_contiguous()
    assert not found[1][0].is_contiguous()
    assert not found[2]["k"].is_contiguous()
    assert (found[1][1], found[3]) == (5, None)


@pytest.mark.parametrize("layout", GRAD_LAYOUTS)
def test_grad_outputs_take_every_layout(layout: str) -> None:
    output = {"output": torch.zeros(4, 6)}
    grad = grad_outputs(output, GradDraw(seed=3, layout=layout), torch.float32)["output"]
    assert grad.shape == (4, 6)
    assert grad.is_contiguous() == (layout not in ("strided", "expanded"))
    if layout == "expanded":
        assert grad.stride() == (0, 0)
        assert grad.unique().numel() == 1
        assert 0.5 <= abs(float(grad[0, 0])) <= 1.5


def test_layouts_do_not_change_the_gradients_drawn() -> None:
    output = {"output": torch.zeros(4, 6)}
    grads = [
        grad_outputs(output, GradDraw(seed=3, layout=layout), torch.float32)["output"]
        for layout in LAYOUTS
    ]
    assert all(torch.equal(grad, grads[0]) for grad in grads)


def test_gradients_of_complex_outputs_have_two_parts() -> None:
    output = {"output": torch.zeros(3, 4, dtype=torch.complex64), "one": torch.zeros(1).cfloat()}
    for layout in LAYOUTS:
        grads = grad_outputs(output, GradDraw(seed=3, layout=layout), torch.bfloat16)
        for path, grad in grads.items():
            assert grad.dtype == torch.complex64
            assert grad.shape == output[path].shape
            assert grad.real.count_nonzero() == grad.imag.count_nonzero() == grad.numel()


def factors(variation: str, dtype: torch.dtype) -> set[float]:
    found = set()
    for seed in range(60):
        inputs = [torch.ones(3, dtype=dtype)]
        vary(inputs, Draw(seed=seed, variation=variation))
        assert inputs[0].unique().numel() == 1
        found.add(float(inputs[0][0]))
    return found


def test_large_and_small_are_exact_powers_of_two_that_the_type_can_square() -> None:
    assert factors("large", torch.float32) == {2.0**n for n in range(8, 13)}
    assert factors("small", torch.float32) == {2.0**-n for n in range(8, 13)}
    assert factors("large", torch.float16) == {8.0, 16.0, 32.0}


def test_signs_negates_about_half_and_changes_no_size() -> None:
    inputs = [torch.rand(10_000)]
    before = inputs[0].clone()
    vary(inputs, Draw(seed=1, variation="signs"))
    assert torch.equal(inputs[0].abs(), before)
    assert 0.45 < float((inputs[0] < 0).float().mean()) < 0.55


def test_as_given_comes_first() -> None:
    assert next(iter(VARIATIONS)) == "as_given"
