"""Solutions that want credit they have not earned get none; honest ones, judged alike, do."""

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
    if trick.peak_mib is None:
        assert not [n for n, value in row.flat().items() if n.endswith("_speedup") and value]
    else:  # what it hides is memory, and the row shows that
        assert set(trick.flags) <= set(row.flags)
        assert row.memory is not None
        assert (row.memory.inference_peak_mib or 0.0) >= trick.peak_mib


@pytest.mark.parametrize("trick", [p for p in parameters("honest") if "waves" in str(p.id)])
def test_honest_code_passes_under_the_same_settings(trick: Trick, rows: Rows) -> None:
    row = rows(trick)
    assert row.verdict.status.value == trick.expect, row.verdict
    assert row.modes["forward"].speedup is not None
    assert set(trick.flags) <= set(row.flags)
    assert "memory_outside" not in set(row.flags) - set(trick.flags)
