"""Constants of a problem file: stated sizes, and what the leading dimension is."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from harness.errors import ProblemError, RequestError
from harness.shared import constants

SOURCE = """
batch = 64
channels: int = 8
height = width = 32
depth, length = 4, 2 * 8
shape = (16, 3)
total = batch * 2

def get_inputs():
    return [batch, channels, height, width, length, shape, total]

def get_init_inputs():
    return [channels]
"""


def values(size: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(constants.at_size(SOURCE, "x.py", size), "x.py", "exec"), namespace)
    return namespace


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("full", {"batch": 64, "total": 128, "shape": (16, 3)}),
        ("batch=4", {"batch": 4, "total": 8}),
        ("channels=2", {"channels": 2}),
        ("height=6", {"height": 6, "width": 6}),
        ("width=6", {"height": 6, "width": 6}),
        ("length=3", {"depth": 4, "length": 3}),
        ("depth=1,length=3", {"depth": 1, "length": 3}),
        ("shape=5", {"shape": (5, 3)}),
        ("total=7", {"batch": 64, "total": 7}),
    ],
)
def test_a_stated_size_sets_constants(size: str, expected: dict[str, Any]) -> None:
    found = values(size)
    assert {name: found[name] for name in expected} == expected


def test_a_constant_that_is_not_there_is_a_wrong_request() -> None:
    with pytest.raises(RequestError, match="has no constant 'rows'"):
        constants.at_size(SOURCE, "x.py", "rows=4")
    with pytest.raises(RequestError, match="has no size 'smoke'"):
        constants.at_size(SOURCE, "x.py", "smoke")
    with pytest.raises(ProblemError, match="never assigns"):
        constants.at_size('SIZES = {"s": {"rows": 4}}', "x.py", "s")


def test_the_leading_dimension_comes_first_and_what_makes_the_model_last() -> None:
    found = constants.leading(SOURCE, values("full"))
    assert found == {
        "batch": 64, "height": 32, "length": 16, "shape": 16, "total": 128, "channels": 8,
    }  # fmt: skip
    assert list(found) == ["batch", "height", "length", "shape", "total", "channels"]


def test_functions_and_shapes_are_followed_and_nothing_else_is_a_dimension() -> None:
    source = """
name, flag, one, ratio = "x", True, 1, 0.5
n = 10
shape = (n, 3)
def make():
    return shape
def get_inputs():
    return [make(), name, flag, one, ratio]
"""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    assert constants.leading(source, namespace) == {"n": 10}
    assert constants.leading("x = 1", {"x": 1}) == {}


@pytest.mark.parametrize(
    "inputs",
    [
        "x = torch.rand(n, 4)\ndef get_inputs():\n    return [x]",
        "inputs = [torch.rand(n, 4)]\ndef get_inputs():\n    return inputs",
        "get_inputs = lambda: [torch.rand(n, 4)]",
        "def make():\n    return [torch.rand(n, 4)]\nget_inputs = make",
        "size = {'rows': n}\ndef get_inputs():\n    return [torch.rand(size['rows'], 4)]",
    ],
)
def test_what_inputs_are_made_of_is_followed_wherever_they_are_made(inputs: str) -> None:
    source = f"import torch\nn, other = 10, 12\n{inputs}\n"
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    assert constants.leading(source, namespace) == {"n": 10}


def test_the_size_of_nothing_is_full() -> None:
    assert constants.stated({}) == constants.FULL
    assert constants.stated({"a": 2, "b": 3}) == "a=2,b=3"
    assert constants.STATED.fullmatch("a=2,b=3")
    assert not constants.STATED.fullmatch("a=2,b=-3")
    assert isinstance(constants.at_size(SOURCE, "x.py", "full"), ast.Module)
