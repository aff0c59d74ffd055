"""A trial is played as it was described, and leaves the model as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from harness.shared.binding import Binding, NoBackward
from harness.shared.draws import Draw, GradDraw
from harness.shared.player import Player
from harness.shared.problem import Instance
from harness.shared.trial import Call, Played, Trial

SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        self.still = torch.nn.Dropout(0.5).eval()

    def forward(self, x, y):
        return self.still(self.norm(x)) * self.frozen + y, x.detach()


def get_inputs():
    return [torch.randn(5, 3), torch.randn(5, 3)]
"""
A, B = Draw(seed=1), Draw(seed=2)
G, H = GradDraw(seed=3), GradDraw(seed=4)


@pytest.fixture
def instance() -> Instance:
    return Instance(
        source=SOURCE,
        path="p.py",
        size="full",
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


@pytest.fixture
def model(instance: Instance) -> torch.nn.Module:
    return instance.model(0)


def play(instance: Instance, model: torch.nn.Module, *calls: Call, **trial: Any) -> Played:
    player = Player(instance=instance, binding=Binding.to_itself(model))
    return player.play(Trial(calls=calls, **trial))


def test_a_trial_travels_as_json() -> None:
    trial = Trial(
        calls=(Call(draw=A), Call(draw=B, grad=G, inputs="refilled", training=False)),
        needs=("x",),
        forwards_first=True,
        weights_seed=5,
        poison="number",
    )
    assert Trial.from_json(json.loads(json.dumps(trial.to_json()))) == trial


@pytest.mark.parametrize(
    "trial",
    [
        {"calls": (Call(draw=A),)},
        {"calls": (Call(draw=A, grad=G), Call(draw=B, grad=H)), "forwards_first": True},
        {"calls": (Call(draw=A, grad=G), Call(draw=A, grad=H, inputs="same")), "accumulate": True},
        {"calls": (Call(draw=A, grad=G),), "needs": ("norm.weight",)},
        {"calls": (Call(draw=A, grad=G),), "weights_seed": 9},
        {"calls": (Call(draw=A), Call(draw=B, training=False))},
    ],
    ids=["plain", "interleaved", "accumulated", "alone", "new weights", "evaluation"],
)
def test_the_model_is_as_it_was_before(
    instance: Instance, model: torch.nn.Module, trial: dict[str, Any]
) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    needs = [parameter.requires_grad for parameter in model.parameters()]
    Player(instance=instance, binding=Binding.to_itself(model)).play(Trial(**trial))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == needs
    assert all(parameter.grad is None for parameter in model.parameters())


def test_buffers_are_told_as_the_call_left_them(instance: Instance, model: Any) -> None:
    played = play(instance, model, Call(draw=A))
    assert not torch.equal(played.state["norm.running_mean"], model.norm.running_mean)
    assert "norm.weight" not in played.state
    played = play(instance, model, Call(draw=A), weights_seed=3)
    assert not torch.equal(played.state["norm.weight"], model.norm.weight)


def test_what_lies_in_a_weight_or_a_buffer_is_told_as_the_call_left_it() -> None:
    source = SOURCE.replace("x.detach()", "(self.norm.running_mean, self.norm.weight[1:])")
    found = Instance(
        source=source, path="p.py", size="full", dtype=torch.float32, device=torch.device("cpu")
    )
    played = play(found, found.model(0), Call(draw=A), weights_seed=3)
    _, (mean, weight) = played.results[0].output
    torch.testing.assert_close(mean, played.state["norm.running_mean"])
    torch.testing.assert_close(weight, played.state["norm.weight"][1:])


def test_the_same_tensors_are_buffers_afterwards(instance: Instance, model: Any) -> None:
    mean = model.norm.running_mean

    def replaced(module: Any, inputs: Any, output: Any) -> None:
        module.running_mean = torch.full((4,), 7.0, dtype=torch.float64)

    with model.norm.register_forward_hook(replaced):
        play(instance, model, Call(draw=A))
    assert model.norm.running_mean is mean
    assert torch.equal(mean, torch.zeros(3))


def test_a_call_without_grad_records_nothing(instance: Instance, model: torch.nn.Module) -> None:
    (result,) = play(instance, model, Call(draw=A)).results
    assert result.grads == {}
    assert not result.output[0].requires_grad


def test_gradients_are_of_all_leaves_or_of_those_named(
    instance: Instance, model: torch.nn.Module
) -> None:
    (result,) = play(instance, model, Call(draw=A, grad=G)).results
    assert set(result.grads) == {"x", "y", "norm.weight", "norm.bias"}
    assert result.carries == {"output[0]": True}
    torch.testing.assert_close(result.grads["y"], result.grad_outputs["output[0]"])
    (result,) = play(instance, model, Call(draw=A, grad=G), needs=("norm.bias",)).results
    assert set(result.grads) == {"norm.bias"}


def test_an_output_that_is_to_carry_a_gradient_and_does_not_is_told(
    instance: Instance, model: torch.nn.Module
) -> None:
    binding = Binding.to_itself(model)
    binding.outputs = ("output[0]", "output[1]")
    player = Player(instance=instance, binding=binding)
    (result,) = player.play(Trial(calls=(Call(draw=A, grad=G),))).results
    assert result.carries == {"output[0]": True, "output[1]": False}
    binding.outputs = ("output[1]",)
    with pytest.raises(NoBackward):
        player.play(Trial(calls=(Call(draw=A, grad=G),)))


def test_an_input_that_has_the_name_of_a_weight_has_a_gradient_of_its_own() -> None:
    source = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))
    def forward(self, scale):
        return 2 * scale + 3 * self.scale
def get_inputs():
    return [torch.ones(3)]
GRAD_INPUTS = ["scale"]
"""
    cpu = torch.device("cpu")
    instance = Instance(source=source, path="p.py", size="full", dtype=torch.float32, device=cpu)
    binding = Binding.to_itself(instance.model(0))
    call = Call(draw=Draw(seed=1), grad=GradDraw(seed=2, layout="ones"))
    (result,) = Player(instance=instance, binding=binding).play(Trial(calls=(call,))).results
    assert {name: grad.tolist() for name, grad in result.grads.items()} == {
        "scale (input)": [2.0] * 3,
        "scale": [3.0] * 3,
    }


def test_backwards_add_up_where_they_are_to(instance: Instance, model: torch.nn.Module) -> None:
    first, second = Call(draw=A, grad=G), Call(draw=A, grad=H, inputs="same")
    apart = [play(instance, model, Call(draw=A, grad=g)).results[0].grads["y"] for g in (G, H)]
    together = play(instance, model, first, second, accumulate=True).results[-1].grads["y"]
    assert apart[0] is not None
    assert apart[1] is not None
    torch.testing.assert_close(together, apart[0] + apart[1])


@pytest.mark.parametrize(
    ("forwards_first", "order"), [(True, "FFBB"), (False, "FBFB")], ids=["together", "in turn"]
)
def test_each_call_has_its_backward_after_all_forwards_or_after_its_own(
    instance: Instance, forwards_first: bool, order: str
) -> None:
    class Noting(torch.nn.Module):
        seen = ""

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            self.seen += "F"
            output = x + y
            output.register_hook(lambda grad: setattr(self, "seen", self.seen + "B"))
            return output

    model = Noting()
    calls = Call(draw=A, grad=G), Call(draw=B, grad=H)
    played = play(instance, model, *calls, forwards_first=forwards_first)
    assert model.seen == order
    for result in played.results:
        assert torch.equal(result.grads["x"], result.grad_outputs["output"])  # type: ignore[arg-type]


def test_refilled_inputs_are_the_same_tensors_with_other_values(
    instance: Instance, model: torch.nn.Module
) -> None:
    played = play(instance, model, Call(draw=A), Call(draw=B, inputs="refilled"))
    first, second = played.results
    assert first.inputs["x"].data_ptr() == second.inputs["x"].data_ptr()
    assert torch.equal(second.inputs["x"], instance.inputs(B)[0])


def test_outputs_of_several_calls_are_told_as_they_were_and_as_they_are_at_the_end(
    instance: Instance, model: torch.nn.Module
) -> None:
    """The second output is a view of the input, which is refilled."""
    played = play(instance, model, Call(draw=A), Call(draw=B, inputs="refilled"))
    assert torch.equal(played.results[0].output[1], instance.inputs(A)[0])
    assert torch.equal(played.later[0][1], instance.inputs(B)[0])


def test_evaluation_mode_uses_what_training_left(instance: Instance, model: Any) -> None:
    played = play(instance, model, Call(draw=A), Call(draw=B, training=False))
    model.norm(instance.inputs(A)[0])
    expected = model.eval()(*instance.inputs(B))[0]
    torch.testing.assert_close(played.results[1].output[0], expected)


def test_new_weights_differ_everywhere_also_where_the_reference_begins_with_constants(
    instance: Instance, model: Any
) -> None:
    state = play(instance, model, Call(draw=A), weights_seed=3).state
    assert (state["norm.bias"] != 0).all()
    assert (state["norm.weight"] != 1).all()
    assert (state["norm.weight"] > 0).all()
    again = play(instance, model, Call(draw=A), weights_seed=3).state
    assert torch.equal(state["norm.weight"], again["norm.weight"])


def test_the_memory_around_laid_out_inputs_is_told(
    instance: Instance, model: torch.nn.Module
) -> None:
    draw = Draw(seed=1, layout="guarded")
    (result,) = play(instance, model, Call(draw=draw)).results
    assert result.buffers["x"].numel() > result.inputs["x"].numel()
    (plain,) = play(instance, model, Call(draw=A)).results
    assert plain.buffers == {}
    assert torch.equal(plain.output[0], result.output[0])


def test_dict_keys_are_text_as_they_travel(instance: Instance) -> None:
    class Keyed(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[Any, Any]:
            return {1: x, "b": (y, {2: None})}

    (result,) = play(instance, Keyed(), Call(draw=A)).results
    assert list(result.output) == ["1", "b"]
    assert result.output["b"][1] == {"2": None}
