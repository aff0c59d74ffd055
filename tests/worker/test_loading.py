"""Weights are taken over by name, else in order, else not at all; a solution is a module."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from harness.worker.faults import ContractFault
from harness.worker.loading import MODULE_NAME, adopt_state, import_solution


def net(**parts: torch.nn.Module | torch.Tensor) -> torch.nn.Module:
    """A module of the given layers and buffers."""
    module = torch.nn.Module()
    for name, part in parts.items():
        if isinstance(part, torch.Tensor):
            module.register_buffer(name, part)
        else:
            module.add_module(name, part)
    return module


def test_equal_names_are_taken_over_by_name_whatever_their_order() -> None:
    reference = net(a=torch.nn.Linear(3, 3), b=torch.nn.Linear(3, 3))
    model = net(b=torch.nn.Linear(3, 3), a=torch.nn.Linear(3, 3))
    names, note = adopt_state(model, reference)
    assert note == ""
    assert all(name == own for name, own in names.items())
    for name, tensor in reference.named_parameters():
        assert torch.equal(model.get_parameter(name), tensor)


def test_buffers_are_taken_over_too() -> None:
    reference, model = (net(n=torch.nn.BatchNorm1d(4)) for _ in range(2))
    reference.get_buffer("n.running_mean").fill_(3.0)
    names, _ = adopt_state(model, reference)
    assert names["n.running_mean"] == "n.running_mean"
    assert model.get_buffer("n.running_mean").tolist() == [3.0] * 4


def test_a_buffer_that_only_the_solution_has_is_its_own_business() -> None:
    scratch = torch.full((7,), 5.0)
    reference = net(a=torch.nn.Linear(2, 2))
    names, _ = adopt_state(net(a=torch.nn.Linear(2, 2), scratch=scratch), reference)
    assert names == {"a.weight": "a.weight", "a.bias": "a.bias"}
    renamed = net(own=torch.nn.Linear(2, 2), scratch=scratch)
    names, note = adopt_state(renamed, reference)
    assert names == {"a.weight": "own.weight", "a.bias": "own.bias"}
    assert note == "parameters were taken over in order: the names differ (a.weight, a.bias)"
    assert torch.equal(renamed.get_parameter("own.weight"), reference.get_parameter("a.weight"))
    assert scratch.tolist() == [5.0] * 7


def test_other_names_are_taken_over_in_order_and_mapped() -> None:
    reference = net(a=torch.nn.Linear(3, 2), n=torch.nn.BatchNorm1d(2))
    model = net(x=torch.nn.Linear(3, 2), y=torch.nn.BatchNorm1d(2))
    reference.get_buffer("n.running_var").fill_(9.0)
    names, _ = adopt_state(model, reference)
    assert names == {
        "a.weight": "x.weight",
        "a.bias": "x.bias",
        "n.weight": "y.weight",
        "n.bias": "y.bias",
        "n.running_mean": "y.running_mean",
        "n.running_var": "y.running_var",
    }
    assert torch.equal(model.get_parameter("x.weight"), reference.get_parameter("a.weight"))
    assert model.get_buffer("y.running_var").tolist() == [9.0] * 2


def test_names_that_agree_are_kept_where_others_differ() -> None:
    reference = net(a=torch.nn.Linear(3, 3), b=torch.nn.Linear(3, 3))
    model = net(c=torch.nn.Linear(3, 3), a=torch.nn.Linear(3, 3))
    names, _ = adopt_state(model, reference)
    assert (names["a.weight"], names["b.weight"]) == ("a.weight", "c.weight")
    assert torch.equal(model.get_parameter("c.weight"), reference.get_parameter("b.weight"))


@pytest.mark.parametrize(
    "model",
    [
        net(a=torch.nn.Linear(3, 4)),
        net(a=torch.nn.Linear(3, 2), extra=torch.nn.Linear(1, 1)),
        net(a=torch.nn.Linear(3, 2, bias=False)),
        net(),
    ],
    ids=["another shape", "one layer more", "one parameter less", "none"],
)
def test_parameters_that_fit_neither_way_are_listed_on_both_sides(model: torch.nn.Module) -> None:
    with pytest.raises(ContractFault) as caught:
        adopt_state(model, net(a=torch.nn.Linear(3, 2)))
    assert "the reference has [a.weight (2, 3), a.bias (2,)]" in str(caught.value)
    listed = [f"{name} {tuple(tensor.shape)}" for name, tensor in model.named_parameters()]
    assert f"ModelNew has [{', '.join(listed)}]" in str(caught.value)


def test_buffers_that_fit_neither_way_are_listed_on_both_sides() -> None:
    reference = net(table=torch.zeros(4))
    with pytest.raises(ContractFault, match=r"the buffers differ.*\[table \(4,\)\].*\[\]"):
        adopt_state(net(), reference)
    with pytest.raises(ContractFault, match="the buffers differ"):
        adopt_state(net(), net(table=torch.zeros(4), mask=torch.ones(2)), constants=["mask"])


def test_a_buffer_that_is_a_constant_may_be_missing_and_is_taken_over_where_it_is_not() -> None:
    reference = net(mask=torch.ones(3), table=torch.full((4,), 2.0))
    names, note = adopt_state(net(other=torch.zeros(4)), reference, constants=["mask"])
    assert names == {"table": "other"}
    assert note == "buffers were taken over in order: the names differ (table)"
    model = net(own=torch.zeros(3), table=torch.zeros(4))
    assert adopt_state(model, reference, constants=["mask"])[0]["mask"] == "own"
    assert model.get_buffer("own").tolist() == [1.0] * 3


def test_a_buffer_that_only_counts_may_be_missing() -> None:
    reference = net(n=torch.nn.BatchNorm1d(4))
    model = net(n=torch.nn.BatchNorm1d(4))
    del model.n.num_batches_tracked  # type: ignore[union-attr]
    assert "n.num_batches_tracked" not in adopt_state(model, reference)[0]


def test_the_solution_keeps_its_own_storage() -> None:
    reference, model = (net(a=torch.nn.Linear(2, 2)) for _ in range(2))
    adopt_state(model, reference)
    reference.get_parameter("a.weight").data.zero_()
    assert model.get_parameter("a.weight").count_nonzero() > 0


def test_nothing_to_take_over_is_fine() -> None:
    assert adopt_state(net(), net()) == ({}, "")


def test_a_solution_is_imported_as_a_module_of_its_own_file(tmp_path: Path) -> None:
    source = "import inspect\nclass ModelNew:\n    def f(self): return 5\n"
    model = import_solution(source, tmp_path, "fused.py")
    assert sys.modules[MODULE_NAME].ModelNew is model
    assert sys.modules[MODULE_NAME].__file__ == str(tmp_path / "fused.py")
    import inspect

    assert "return 5" in inspect.getsource(model.f)  # as triton reads its kernels


@pytest.mark.parametrize("source", ["x = 1", "ModelNew = 3", "def Model(): pass"])
def test_a_file_without_a_modelnew_breaks_the_contract(tmp_path: Path, source: str) -> None:
    with pytest.raises(ContractFault, match=r"s\.py defines no class ModelNew"):
        import_solution(source, tmp_path, "s.py")


def test_what_a_file_raises_passes_through(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        import_solution("1 / 0", tmp_path, "s.py")
