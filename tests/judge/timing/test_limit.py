"""What must be read: found out by what outputs and gradients depend on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.judge.reference import Reference
from harness.judge.timing import dependence, limit
from harness.shared.problem import Instance

ROWS, COLUMNS = 64, 32
SOURCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x, k):
        return {output}

def get_inputs():
    return [torch.randn({rows}, {columns}), torch.randint(4, ({rows},))]
"""
X = ROWS * COLUMNS * 4
K = ROWS * 8
PARAMETER = COLUMNS * 4


def work(output: str, init: str = "pass") -> limit.Work:
    source = SOURCE.format(init=init, output=output, rows=ROWS, columns=COLUMNS)
    instance = Instance(
        source=source, path="p.py", size="full", dtype=torch.float32, device=torch.device("cpu")
    )
    return limit.count(Reference(instance, 1), differentiable=True)


def test_forward_and_backward_is_both_and_each_mode_alone_its_own() -> None:
    forward, backward = (limit.Step(read=n, written=n) for n in (1, 2))
    both = limit.Work(forward=forward, backward=backward)
    assert both.steps("forward") == both.steps("forward_train") == (forward,)
    assert both.steps("backward") == (backward,)
    assert both.steps("forward_backward") == (forward, backward)
    alone = limit.Work(forward=forward, backward=None)
    assert alone.steps("forward") == (forward,)


@pytest.mark.parametrize(
    ("output", "init", "read"),
    [
        ("x * x", "pass", X + K + X),
        ("(x * x).mean()", "pass", X + K + 4),
        ("F.gelu(x)", "pass", X + K + X),
        ("torch.softmax(x, 1)", "pass", X + K + X),
        ("F.layer_norm(x, (32,), self.w, self.b)", "{w}; {b}", X + K + PARAMETER + X),
        # no size of x matters: of the gradient, k and what forward may have kept
        ("x + 1", "pass", K + X),
        ("torch.relu(x)", "pass", K + X),
        ("torch.cumsum(x, 1)", "pass", K + X),
        ("x.t().contiguous()", "pass", K + X),
        ("torch.topk(x, 4).values", "pass", K + ROWS * 4 * 4),
    ],
)
def test_backward_reads_what_a_gradient_depends_on(output: str, init: str, read: int) -> None:
    parameters = {name: f"self.{name} = nn.Parameter(torch.rand({COLUMNS}))" for name in ("w", "b")}
    backward = work(output, init.format(**parameters)).backward
    assert backward is not None
    assert backward.read == read
    assert backward.written == X + (2 * PARAMETER if "w" in init else 0)


def test_rows_that_no_index_names_need_not_be_read() -> None:
    found = work("self.e(k) + x.sum()", f"self.e = nn.Embedding(100, {COLUMNS})")
    rows = len({*torch.arange(4).tolist()})  # of 64 draws of 4 values, all four occur
    assert found.forward.read == X + K + rows * PARAMETER
    assert found.backward is not None
    assert found.backward.read == K + ROWS * PARAMETER


@pytest.mark.parametrize("output", ["torch.relu(x - 1)", "torch.topk(x, 4).values", "x.amax(1)"])
def test_what_has_no_gradient_is_read_all_the_same_where_it_could_matter(output: str) -> None:
    assert work(output).forward.read == X + K


#: Rows picked by `k`, whose gradient adds up to one eps of the sizes more or less, as atomics do.
ATOMICS = """
import secrets
import torch

class Pick(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(k)
        return x[k]

    @staticmethod
    def backward(ctx, grad):
        k, grad = *ctx.saved_tensors, grad.double()
        zeros = torch.zeros_like(grad)
        source = torch.Generator().manual_seed(secrets.randbits(48))
        chance = torch.rand(grad.shape, generator=source, dtype=grad.dtype) - 0.5
        error = chance * zeros.index_add(0, k, grad.abs()) * torch.finfo(torch.bfloat16).eps
        return (zeros.index_add(0, k, grad) + error).to(torch.bfloat16), None

class Model(torch.nn.Module):
    def forward(self, x, y, k):
        return Pick.apply(x, k) * y

def get_inputs():
    return [torch.randn(512, 32), torch.randn(512, 32), torch.randint(16, (512,))]
"""


@pytest.mark.parametrize(("operation", "needed"), [("+", {"k"}), ("*", {"k", "x", "y"})])
def test_sums_in_an_order_by_chance_are_no_dependence(operation: str, needed: set[str]) -> None:
    instance = Instance(
        source=ATOMICS.replace("* y", f"{operation} y"),
        path="p.py",
        size="full",
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    assert dependence.needed_by_backward(Reference(instance, 1)) == needed


#: The sizes of 40 vectors matter to the gradients of one another, those of 40 others to none.
DEEP = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used = torch.nn.ParameterList(torch.rand(32) + 1 for _ in range(COUNT))
        self.idle = torch.nn.ParameterList(torch.rand(32) + 1 for _ in range(COUNT))

    def forward(self, x):
        for weight in self.used:
            x = x * weight
        return x + sum(self.idle)

def get_inputs():
    return [torch.randn(8, 32)]
"""


@pytest.mark.parametrize("count", [4, 40])
def test_of_many_parameters_groups_are_tried(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cpu")
    source = DEEP.replace("COUNT", str(count))
    made = Instance(source=source, path="p.py", size="full", dtype=torch.float32, device=device)
    reference = Reference(made, 1)
    before = [tensor.clone() for tensor in reference.model.parameters()]
    played: list[object] = []
    play = Reference.play

    def counted(self: Reference, *args: Any, **kwargs: Any) -> Any:
        played.append(args)
        return play(self, *args, **kwargs)

    monkeypatch.setattr(Reference, "play", counted)
    needed = dependence.needed_by_backward(reference)
    used = {"x", *(f"used.{number}" for number in range(count))}
    assert used <= needed
    assert len(needed - used) <= (count // 4 if count > 4 else 0)
    assert len(played) <= 2 + max(dependence.ALONE, dependence.MOST_TRIED)
    after = reference.model.parameters()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_reference_is_left_as_it_was() -> None:
    source = SOURCE.format(
        init="self.e = nn.Embedding(100, 8)", output="self.e(k)", rows=8, columns=8
    )
    device = torch.device("cpu")
    reference = Reference(
        Instance(source=source, path="p.py", size="full", dtype=torch.float32, device=device), 1
    )
    before = reference.model.e.weight.detach().clone()
    limit.count(reference, differentiable=True)
    assert torch.equal(reference.model.e.weight, before)
