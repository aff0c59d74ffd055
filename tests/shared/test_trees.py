"""Trees: what is done to every tensor in them, and what they stay."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.shared.trees import apart, bytes_of, dense, map_tensors, once, stack, walk_tensors

Pair = namedtuple("Pair", "a b")
ONES = torch.ones(2, 3)


def test_a_mapped_tree_keeps_its_structure_and_all_that_is_no_tensor() -> None:
    tree = {"x": [ONES, 5], 7: (ONES, None, "text"), "y": Pair(ONES, 1)}
    mapped = map_tensors(lambda tensor: tensor.numel(), tree)
    assert mapped == {"x": [6, 5], 7: (6, None, "text"), "y": (6, 1)}
    assert [type(part) for part in mapped.values()] == [list, tuple, tuple]


def test_a_walk_tells_where_each_tensor_is() -> None:
    tree = (ONES, {"a": [5, ONES], 7: ONES})
    assert [path for path, _ in walk_tensors(tree, "output")] == [
        "output[0]",
        "output[1]['a'][1]",
        "output[1]['7']",
    ]
    assert bytes_of(tree) == 3 * 6 * 4
    assert bytes_of([torch.ones(1).expand(5), None]) == 20


def test_trees_are_stacked_leaf_by_leaf() -> None:
    stacked = stack([(ONES, [k * ONES, "text"], {"a": torch.tensor(k)}) for k in (1, 2)])
    assert type(stacked) is tuple
    assert type(stacked[1]) is list
    assert stacked[0].shape == (2, 2, 3)
    assert stacked[1][0][1].tolist() == (2 * ONES).tolist()
    assert stacked[1][1] == "text"
    assert stacked[2]["a"].tolist() == [1, 2]


def test_flat_tensors_of_other_lengths_are_filled_up_and_others_refused() -> None:
    assert stack([torch.ones(1), torch.ones(3)]).tolist() == [[1, 0, 0], [1, 1, 1]]
    with pytest.raises(RuntimeError, match="equal size"):
        stack([torch.ones(1, 2), torch.ones(3, 2)])
    with pytest.raises(ValueError, match="shorter"):
        stack([(ONES, ONES), (ONES,)])


@pytest.mark.parametrize(
    ("tensor", "shape"),
    [
        (torch.ones(3, 1).expand(3, 4), (3, 1)),
        (torch.ones(()).expand(2, 2), (1, 1)),
        (torch.ones(1, 4).as_strided((1, 4), (0, 1)), (1, 4)),
        (torch.ones(0, 1).expand(0, 4), (0, 1)),
        (ONES, (2, 3)),
    ],
    ids=["a dimension", "all", "of one row", "empty", "none"],
)
def test_of_an_expanded_tensor_each_value_is_there_once(
    tensor: torch.Tensor, shape: tuple[int, ...]
) -> None:
    found = once(tensor)
    assert found.shape == shape
    assert found.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    ("second", "copied"),
    [(torch.ones(2, 3), False), (ONES, True), (ONES[0], True), (torch.ones(3, 2).t(), True)],
    ids=["its own", "the same", "a view", "not contiguous"],
)
def test_what_shares_memory_is_copied_and_nothing_else(second: torch.Tensor, copied: bool) -> None:
    first, (other,) = apart([ONES, [second]])
    assert first is ONES
    assert (other is not second) is copied
    assert torch.equal(other, second)


@pytest.mark.parametrize(
    ("tensor", "plain"),
    [
        (ONES.t(), True),
        (torch.eye(2).to_sparse(), False),
        (SimpleNamespace(is_nested=False, is_quantized=True, layout=torch.strided), False),
        (SimpleNamespace(is_nested=True, is_quantized=False, layout=torch.strided), False),
    ],
    ids=["strided", "sparse", "quantized", "nested"],
)
def test_only_plain_arrays_of_numbers_are_dense(tensor: Any, plain: bool) -> None:
    assert dense(tensor) is plain
