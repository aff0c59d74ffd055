"""What a row says of a build."""

from __future__ import annotations

import pytest

from harness.judge.rows import Findings
from harness.meanings import FLAGS


@pytest.mark.parametrize(
    ("used", "flags"),
    [
        (["lean", "lean"], []),
        (["lean", "torch"], ["full_headers"]),
        ([None], []),
        ([], []),
    ],
    ids=str,
)
def test_a_row_says_where_all_of_torchs_headers_were_used(
    used: list[str | None], flags: list[str]
) -> None:
    found = Findings()
    for _ in range(2):  # after the build, and again after the load
        found.note_builds([{"seconds": 1.0, "headers": headers} for headers in used])
    assert found.flags == flags
    assert set(flags) <= set(FLAGS)
