"""What the judge keeps out of its garbage collections, and gets back."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

from harness.judge import reference
from harness.judge.reference import Reference, settle_heap, settle_more
from harness.shared.draws import Draw
from harness.shared.problem import Instance
from harness.shared.trial import Call, Trial


class Node:
    """Refers to itself: only a garbage collection frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_collections_leave_alone_what_was_loaded_when_the_heap_was_settled() -> None:
    settle_heap()
    try:
        assert gc.get_freeze_count() > 100_000  # torch, above all
        assert len(gc.get_objects()) < 10_000
        later = weakref.ref(Node())
        gc.collect()
        assert later() is None
    finally:
        gc.unfreeze()


def test_what_is_loaded_later_is_left_alone_too_and_garbage_is_not_kept() -> None:
    settle_heap()
    try:
        kept, garbage = [Node() for _ in range(20_000)], weakref.ref(Node())
        assert len(gc.get_objects()) > 20_000
        settle_more()
        assert len(gc.get_objects()) < 10_000
        assert garbage() is None
        assert len(kept) == 20_000
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    ("held", "free", "given_back"),
    [
        (reference.LITTLE_BYTES, 0, False),
        (28 << 30, 83 << 30, True),
        (28 << 30, 85 << 30, False),
        (reference.LITTLE_BYTES + 1, 0, True),
    ],
)
def test_memory_is_given_back_where_a_worker_could_want_for_it(
    monkeypatch: pytest.MonkeyPatch, held: int, free: int, given_back: bool
) -> None:
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: held)
    monkeypatch.setattr(reference, "free_bytes", lambda device: free)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    one = Reference.__new__(Reference)
    one.instance = SimpleNamespace(device=torch.device("cuda"))  # type: ignore[assignment]
    one.release()
    assert emptied == [True] * given_back


def test_the_case_before_is_freed_before_the_heap_is_settled_again() -> None:
    case = Node()
    seen = weakref.ref(case)
    settle_heap()
    try:
        del case
        gc.collect()
        assert seen() is not None  # frozen: nobody looks at it
        settle_heap()
        assert seen() is None
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("made", ["self.state = {}", "self.register_buffer('state', {})"])
@pytest.mark.parametrize("state", ["torch.ones(3).expand(4, 3)", "torch.ones(4, 3)"])
@pytest.mark.parametrize("weights_seed", [None, 5])
def test_what_a_module_holds_is_put_back_expanded_or_not(
    made: str, state: str, weights_seed: int | None
) -> None:
    source = f"""
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {made.format(state)}

    def forward(self, x):
        self.state[0].mul_(2.0)
        return x * self.state


def get_inputs():
    return [torch.ones(4, 3)]
"""
    cpu = torch.device("cpu")
    instance = Instance(source=source, path="p.py", size="full", dtype=torch.float32, device=cpu)
    model = Reference(instance, weights_seed=1)
    trial = Trial(calls=(Call(draw=Draw(seed=1)),), weights_seed=weights_seed)
    for _ in range(2):
        expected = model.expected(trial, oracle=True)
        assert expected.oracle is not None
        for played in (expected.played, expected.oracle):
            assert played.results[0].output.max() == 2.0
    assert (model.model.state == 1.0).all()


TELLS = """import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("made_in", torch.tensor(float(torch.backends.cudnn.allow_tf32)))

    def forward(self, x):
        return x + self.made_in + 2 * torch.backends.cudnn.allow_tf32

def get_inputs():
    return [torch.zeros(4)]
"""


@pytest.mark.parametrize("allow_tf32", [False, True])
@pytest.mark.parametrize("somebody", [False, True])
def test_it_is_as_exact_as_a_worker_whatever_is_allowed_outside(
    allow_tf32: bool, somebody: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", somebody)
    cpu = torch.device("cpu")
    instance = Instance(source=TELLS, path="p.py", size="full", dtype=torch.float32, device=cpu)
    found = Reference(instance, 1, allow_tf32=allow_tf32).call(Draw(seed=1)).output
    assert found.tolist() == [3.0 * allow_tf32] * 4
    assert torch.backends.cudnn.allow_tf32 is somebody
