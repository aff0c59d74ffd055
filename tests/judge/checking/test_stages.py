"""At which sizes a solution is checked, and how often."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from support import TINY

from harness.config import Settings
from harness.judge.checking import stages
from harness.judge.checking.stages import Stage, sizes_to_check, without_misfits
from harness.judge.checking.survey import MEMORY_SHARE, Survey
from harness.records import Phase

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


@pytest.mark.parametrize(
    ("share", "fits"),
    [(0.0, True), (MEMORY_SHARE, True), (0.5, False), (torch.OutOfMemoryError("x"), False)],
    ids=["little", "just", "too much", "more than there is"],
)
@pytest.mark.parametrize("outputs", [(), ("output",)], ids=["forward", "backward too"])
def test_the_huge_size_alone_is_left_out_where_two_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, share: Any, fits: bool, outputs: tuple[str, ...]
) -> None:
    played: list[Any] = []

    def peak_share(reference: Any, action: Any) -> float:
        action()
        if isinstance(share, Exception):
            raise share
        return float(share)

    monkeypatch.setattr(stages, "peak_share", peak_share)
    known = [Stage(size=name, reference=mock.Mock()) for name in ("odd", "huge", "full")]
    for stage in known:
        stage.reference.play.side_effect = played.append  # type: ignore[attr-defined]
    before = frozenset({(Phase.FORWARD, "signs")})
    kept, found = without_misfits(known, Survey(outputs=outputs, left_out=before))
    assert [stage.size for stage in kept] == (["odd", "huge", "full"] if fits else ["odd", "full"])
    assert found.left_out == (before if fits else before | {(Phase.FORWARD, "huge")})
    (trial,) = played
    assert (trial.calls[0].grad is None) == (not outputs)
    known[1].reference.release.assert_called_once_with()  # type: ignore[attr-defined]
