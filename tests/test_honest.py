"""Honest but unusual solutions, one habit a file: each passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from support import Bench
from tricks import Rows, Trick, find, parameters
from tricks import rows as rows_of

from harness.judge.checking.compare import ERROR_RATIO_LIMIT


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Rows]:
    with rows_of(request, bench.folder) as found:
        yield found


def test_there_are_enough() -> None:
    assert len(find("honest")) >= 15


#: What memory is held against is measured where there is time for it: tests/test_cheats.py.
UNTIMED = [p for p in parameters("honest") if not p.values[0].memory]


@pytest.mark.parametrize("trick", UNTIMED)
def test_honest_code_passes(trick: Trick, rows: Rows) -> None:
    row = rows(trick)
    assert row.verdict.status.value == trick.expect, row.verdict
    assert set(trick.flags) <= set(row.flags)
    assert "memory_outside" not in set(row.flags) - set(trick.flags)
    refusals = {flag for flag in row.flags if flag.endswith("_only")} - {"library_only"}
    assert refusals <= set(trick.flags)
    limit = ERROR_RATIO_LIMIT.get(getattr(torch, trick.dtype))
    assert limit is None or (row.error_ratio or 0.0) <= limit, "what did not decide is no figure"
