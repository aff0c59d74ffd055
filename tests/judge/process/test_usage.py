"""Processor time is told where all of it is known, and not told where some may be missing."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from harness.judge.process.usage import Usage


def look(threads_ns: dict[int, int], newest: str | None = "7") -> Usage:
    return Usage(threads_ns=threads_ns, newest=newest)


def test_the_time_of_all_threads_is_added_up() -> None:
    assert look({1: 10**9, 2: 0}).busy_s(look({1: 2 * 10**9, 2: 5 * 10**8}), trusted=False) == 1.5


@pytest.mark.parametrize(
    "later",
    [
        look({1: 10**9}),
        look({1: 10**9, 2: 0, 3: 0}),
        look({1: 10**9, 3: 0}),
        look({1: 10**9, 2: 0}, newest="8"),
        look({1: 10**9, 2: 0}, newest=None),
        look({}),
    ],
    ids=["one ended", "one came", "another one", "one came and went", "nothing tells", "none"],
)
def test_nothing_is_told_where_a_thread_may_have_come_or_gone(later: Usage) -> None:
    assert look({1: 0, 2: 0}, later.newest and "7").busy_s(later, trusted=False) is None


def test_of_processes_that_hide_none_it_is_always_told() -> None:
    assert look({1: 0}).busy_s(look({1: 10**9, 2: 10**9}, newest="9"), trusted=True) == 2.0
    assert look({1: 0}).busy_s(look({}), trusted=True) is None


def test_a_process_that_is_gone_is_none() -> None:
    assert Usage.of([2**22 + 1]).threads_ns == {}


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel tells nothing")
def test_a_thread_is_seen_with_its_time_and_as_the_newest() -> None:
    before, done = Usage.of([os.getpid()]), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass
    later = Usage.of([os.getpid()])
    done.set()
    thread.join()
    main = threading.main_thread().native_id
    assert main is not None
    assert later.threads_ns[main] - before.threads_ns[main] > 5e6
    assert later.threads_ns.keys() - before.threads_ns.keys() == {thread.native_id}
    assert before.newest != later.newest
    assert before.busy_s(later, trusted=False) is None
