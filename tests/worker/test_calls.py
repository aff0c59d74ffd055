"""Calls: what is timed and what is not, plain tensors only, memory that says it was not written."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from harness.shared.binding import Binding, NoBackward
from harness.shared.draws import Draw
from harness.shared.problem import Instance
from harness.worker.calls import POISONS, Side, call_set, plain, poisoned
from harness.worker.faults import ContractFault

CPU = torch.device("cpu")

SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([2.0]))

    def forward(self, x, y):
        return (self.scale * x * y).sum(dim=1)


def get_inputs():
    return [torch.randn(3, 4), torch.randn(3, 4)]
"""


def instance(extra: str = "") -> Instance:
    return Instance(
        source=SOURCE + extra, path="p.py", size="full", dtype=torch.float32, device=CPU
    )


def side(of: Instance, names: dict[str, str] | None = None) -> Side:
    model = of.model(0)
    return Side("candidate", model, Binding(model=model, names=names) if names else None)


# --- modes ------------------------------------------------------------------------------------


def test_each_mode_times_what_its_name_says() -> None:
    of = instance()
    model = side(of)
    calls = call_set(of, Draw(seed=1), grad=True, grad_seed=2)
    assert not model.run("forward", calls, model.prepare("forward", calls)).requires_grad
    assert model.run("forward_train", calls, model.prepare("forward_train", calls)).requires_grad
    prepared = model.prepare("backward", calls)
    assert prepared.requires_grad
    assert set(model.run("backward", calls, prepared)) == {"x", "y", "scale"}
    output, grads = model.run("forward_backward", calls, model.prepare("forward_backward", calls))
    assert output.requires_grad
    assert set(grads) == {"x", "y", "scale"}
    assert model.prepare("forward_backward", calls) is None


def test_gradients_are_those_of_dense_random_grad_outputs() -> None:
    of = instance()
    calls = call_set(of, Draw(seed=1), grad=True, grad_seed=2)
    output, grads = side(of).run("forward_backward", calls, None)
    assert calls.grads is not None
    grad = calls.grads["output"]
    assert grad.shape == output.shape
    assert grad.is_contiguous()
    x, y = calls.inputs
    torch.testing.assert_close(grads["x"], 2 * grad[:, None] * y)
    torch.testing.assert_close(grads["scale"], (grad * (x * y).sum(1)).sum()[None])


class Packed(torch.nn.Module):
    """Works something out of its weight, anew whenever that has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([2.0]))
        self.version: int | None = None
        self.packings = 0

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if self.version != self.scale._version:
            self.packed, self.version = self.scale.detach().square(), self.scale._version
            self.packings += 1
        return (self.scale * x * y * self.packed).sum(dim=1)


@pytest.mark.parametrize(
    ("mode", "packings"),
    [("forward", 1), ("forward_train", 3), ("backward", 1), ("forward_backward", 3)],
)
def test_in_training_no_call_meets_the_weights_of_the_one_before(mode: str, packings: int) -> None:
    of, model = instance(), Packed()
    calls = [call_set(of, Draw(seed=i), grad=mode != "forward", grad_seed=i) for i in range(3)]
    timed = Side("candidate", model)
    prepared = [timed.prepare(mode, one) for one in calls]
    for one, before in zip(calls, prepared, strict=True):
        timed.run(mode, one, before)
    assert model.packings == packings
    assert model.scale.item() == 2.0


@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_where_a_model_goes_by_its_buffers_they_are_put_back_before_each_call(mode: str) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.ones(()))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return (self.calls * x * y).sum(dim=1)

    calls = call_set(instance(), Draw(seed=1), grad=mode == "backward", grad_seed=2)
    for restored, least in ((True, [2, 2, 2]), (False, [2, 3, 4])):
        model = Counting()
        of, left = Side("candidate", model, restored=restored), []
        for _ in range(3):
            of.run(mode, calls, of.prepare(mode, calls))
            left.append(int(model.calls))
        assert left == least


def test_gradients_are_of_the_named_inputs_and_all_parameters() -> None:
    of = instance("\nGRAD_INPUTS = ('y',)\n")
    calls = call_set(of, Draw(seed=1), grad=True, grad_seed=2)
    assert set(side(of).run("forward_backward", calls, None)[1]) == {"y", "scale"}
    assert not calls.inputs[0].requires_grad


def test_gradients_go_by_the_references_names() -> None:
    of = instance()
    calls = call_set(of, Draw(seed=1), grad=True, grad_seed=2)
    grads = side(of, {"weight": "scale"}).run("forward_backward", calls, None)[1]
    assert set(grads) == {"x", "y", "weight"}


def test_without_grad_nothing_requires_it() -> None:
    calls = call_set(instance(), Draw(seed=1), grad=False, grad_seed=0)
    assert calls.leaves == {}
    assert not any(x.requires_grad for x in calls.inputs)


def test_a_gradient_that_is_missing_is_none_and_not_an_error() -> None:
    class Partial(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.sum(dim=1)

    calls = call_set(instance(), Draw(seed=1), grad=True, grad_seed=2)
    grads = Side("candidate", Partial()).run("forward_backward", calls, None)[1]
    assert grads["y"] is None
    assert grads["x"] is not None


def test_an_output_without_a_gradient_has_no_backward() -> None:
    class Detached(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
            return [x.detach(), y.detach()]

    calls = call_set(instance(), Draw(seed=1), grad=True, grad_seed=2)
    with pytest.raises(NoBackward, match="no grad_fn"):
        Side("candidate", Detached()).run("forward_backward", calls, None)


def test_what_carries_a_gradient_is_found_by_path_in_any_tree() -> None:
    with_grad, without = torch.ones(1, requires_grad=True) * 2, torch.ones(1)
    output = [without, {"a": (with_grad, 3)}, None, with_grad]
    binding = Binding(model=torch.nn.Module(), names={})
    assert list(binding.differentiated(output)) == ["output[1]['a'][0]", "output[3]"]
    binding.outputs = ("output[3]",)
    assert list(binding.differentiated(output)) == ["output[3]"]


# --- plain tensors ----------------------------------------------------------------------------


class Lazy(torch.Tensor):
    """Computes when it is looked at."""


class Wrapped:
    """Is no tensor, but says that it is."""

    @property
    def __class__(self) -> Any:
        return torch.Tensor


def test_plain_tensors_parameters_and_numbers_pass_in_any_tree() -> None:
    tensor = torch.ones(2, requires_grad=True)
    tree = [tensor, (torch.nn.Parameter(torch.ones(1)), {"a": 3, "b": None}), 1.5]
    found = plain(tree)
    assert not found[0].requires_grad
    assert found[0].data_ptr() == tensor.data_ptr()
    assert type(found[1][0]) is torch.Tensor
    assert found[1][1] == {"a": 3, "b": None}


def test_a_subclass_is_refused_wherever_it_hides() -> None:
    lazy = torch.ones(2).as_subclass(Lazy)
    for tree in (lazy, [lazy], {"a": (1, lazy)}):
        with pytest.raises(ContractFault, match=r"a Lazy .* a plain torch.Tensor is asked for"):
            plain(tree)


def test_what_is_not_dense_is_refused() -> None:
    with pytest.raises(ContractFault, match="a dense one is asked for"):
        plain([torch.ones(2), torch.eye(2).to_sparse()])


def test_a_tensor_that_became_a_subclass_later_is_refused() -> None:
    tensor = torch.ones(2)
    tensor.__class__ = Lazy
    with pytest.raises(ContractFault, match="Lazy"):
        plain(tensor)


@pytest.mark.parametrize("name", ["compute", "detach", "cpu", "__torch_function__", "_base"])
def test_an_attribute_on_the_instance_is_refused(name: str) -> None:
    tensor = torch.ones(2)
    try:
        setattr(tensor, name, lambda: torch.zeros(2))
    except AttributeError:
        pytest.skip("torch itself refuses it")
    with pytest.raises(ContractFault, match="with attributes"):
        plain(tensor)


def test_an_object_that_poses_as_a_tensor_is_refused() -> None:
    with pytest.raises(ContractFault):
        plain(Wrapped())


# --- memory -----------------------------------------------------------------------------------


def test_memory_that_was_never_written_is_not_a_number() -> None:
    with poisoned(CPU, "nan"):
        found = [
            torch.empty(1000),
            torch.empty_like(torch.ones(3, 3)),
            torch.ones(2).new_empty(5),
            torch.empty(4, dtype=torch.float64),
            torch.empty(4, dtype=torch.float16),
            torch.empty_strided((3, 2), (1, 3)),
        ]
    assert all(tensor.isnan().all() for tensor in found)


def test_integers_that_were_never_written_are_the_largest() -> None:
    with poisoned(CPU, "nan"):
        found = torch.empty(3, dtype=torch.int32)
    assert found.tolist() == [torch.iinfo(torch.int32).max] * 3


def test_memory_may_hold_a_number_instead_in_native_code_too() -> None:
    with poisoned(CPU, "number"):
        values = torch.empty(1000)
        native = ctypes.CDLL(None).malloc
        native.restype = ctypes.POINTER(ctypes.c_float)
        allocated = native(4096)[0]
    assert values.unique().tolist() == [POISONS["number"]]
    assert allocated == POISONS["number"]


def test_what_is_written_keeps_its_values() -> None:
    with poisoned(CPU, "nan"):
        assert torch.ones(3).tolist() == [1, 1, 1]
        assert (torch.ones(3) + 1).tolist() == [2, 2, 2]
        assert torch.zeros(2).tolist() == [0, 0]


@pytest.mark.parametrize("mode", ["default", "warn", "error"])
def test_what_was_set_before_is_set_again_also_after_an_error(mode: str) -> None:
    torch.set_deterministic_debug_mode(mode)
    before = torch.get_deterministic_debug_mode()
    try:
        with pytest.raises(KeyError), poisoned(CPU, "nan"):
            raise KeyError
        assert torch.get_deterministic_debug_mode() == before
    finally:
        torch.set_deterministic_debug_mode("default")
