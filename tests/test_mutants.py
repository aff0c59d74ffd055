"""Wrong but plausible solutions, one trick a file: each gets the right verdict."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import Bench
from tricks import Rows, Trick, find, parameters
from tricks import rows as rows_of


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Rows]:
    with rows_of(request, bench.folder) as found:
        yield found


def test_there_are_enough() -> None:
    assert len(find("mutants")) >= 40


@pytest.mark.parametrize("trick", parameters("mutants"))
def test_a_mutant_gets_its_verdict(trick: Trick, rows: Rows) -> None:
    verdict = rows(trick).verdict
    assert verdict.status.value == trick.expect, verdict
    assert trick.says in verdict.message
