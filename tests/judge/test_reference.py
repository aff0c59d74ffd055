"""What the judge keeps out of its garbage collections, and gets back."""

from __future__ import annotations

import gc
import weakref

from harness.judge.reference import settle_heap


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
