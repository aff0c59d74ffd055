"""Solutions that want credit they have not earned get none; honest ones, judged alike, do.

They are timed: `make test` runs nothing beside these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support import ROOT, Bench
from tricks import Rows, Trick, find, parameters, table
from tricks import rows as rows_of


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Rows]:
    with rows_of(request, bench.folder, in_full=True) as found:
        yield found


def test_there_are_enough_and_each_says_what_stops_it() -> None:
    cheats = find("cheats")
    assert len(cheats) >= 60
    assert all(trick.defence for trick in cheats)


def test_the_documentation_lists_what_the_folder_holds() -> None:
    text = (ROOT / "docs" / "integrity.md").read_text()
    assert table() in text, "put in what `PYTHONPATH=. python tests/tricks.py` prints"


@pytest.mark.parametrize("trick", parameters("cheats"))
def test_a_cheat_gets_no_credit(trick: Trick, rows: Rows) -> None:
    row = rows(trick)
    assert re.fullmatch(trick.expect, row.verdict.status.value), row.verdict
    assert re.search(trick.says, row.verdict.message), row.verdict
    assert trick.agrees(row), row.flat()


#: Problems whose honest controls are timed here: much work a call, one pass over the inputs, rows
#: that scale, inputs that the reference changes in place, random numbers, several outputs in a dict
#: of another order, and what is faster by looking at few values. `benchmarks/red_team.py` times
#: them all.
TIMED = (
    "waves",
    "sums",
    "layers",
    "running",
    "normalised",
    "optimiser_step",
    "dropout",
    "views",
    "large",
    "large_ranks",
    "peaks",
    "noise",
)
CONTROLS = [p for p in parameters("honest") if p.values[0].path.parent.name in TIMED]


@pytest.mark.parametrize("trick", CONTROLS)
def test_honest_code_passes_under_the_same_settings(trick: Trick, rows: Rows) -> None:
    row = rows(trick)
    assert trick.agrees(row), (row.verdict, row.flags)
    assert row.modes["forward"].speedup is not None
