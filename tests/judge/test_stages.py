"""At which sizes a solution is checked, and how often."""

from __future__ import annotations

import pytest
from support import TINY

from harness.config import Settings
from harness.judge.stages import sizes_to_check

SIZED = TINY + "\nSIZES = {%s}\n"


@pytest.mark.parametrize(
    ("names", "graded", "expected"),
    [
        ("", "full", [("full", 0)]),
        ("'smoke': {}", "full", [("smoke", 0), ("full", 5)]),
        ("'smoke': {}", "smoke", [("smoke", 0)]),
        ("'smoke': {}, 'odd': {}", "full", [("odd", 0), ("full", 5)]),
        ("'smoke': {}, 'odd': {}", "smoke", [("odd", 0), ("smoke", 5)]),
        ("'odd': {}, 'huge': {}", "full", [("odd", 0), ("huge", 1), ("full", 5)]),
        ("'odd': {}, 'huge': {}", "huge", [("odd", 0), ("huge", 5)]),
    ],
)
def test_all_passes_are_made_at_a_small_size_and_the_graded_one_comes_last(
    names: str, graded: str, expected: list[tuple[str, int]]
) -> None:
    assert sizes_to_check(SIZED % names, graded, Settings(huge=True)) == expected
    without = [pair for pair in expected if pair[0] != "huge" or graded == "huge"]
    assert sizes_to_check(SIZED % names, graded, Settings()) == without
