"""A sweep names the step at which a problem was ended."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kernelbench_sweep as sweep

FILE = Path(__file__).resolve().parent / "kernelbench" / "level1" / "1_Scale.py"


@pytest.mark.parametrize("asked", [[], ["lint"], ["self-check"], ["lint", "self-check"]])
def test_steps_are_those_that_were_asked_for(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "_lint", lambda _: {"lint": "fit"})
    monkeypatch.setattr(sweep, "_self_check", lambda *_: "pass")
    arguments = [str(FILE.parent), "--device", "cpu", *(f"--{step}" for step in asked)]
    found = dict(sweep._steps("level1/1_Scale", FILE, sweep._options(arguments)))
    assert list(found) == [*sweep.STEPS[1:6], *asked, "done"]
    line = {name: value for known in found.values() for name, value in known.items()}
    assert "gradients" in line["backward"]
    assert {"lint", "self_check"} & set(line) == {step.replace("-", "_") for step in asked}


def test_what_has_no_room_beside_others_is_examined_again_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    under_way: set[str] = set()
    together = threading.Barrier(2, timeout=20)
    tried: list[tuple[str, int]] = []

    def examine(name: str, *_: Any) -> dict[str, Any]:
        first = name not in [known for known, _ in tried]
        under_way.add(name)
        if first:
            together.wait()
        tried.append((name, len(under_way)))
        if first:
            together.wait()
        under_way.discard(name)
        return {
            "problem": name,
            "outcome": "ok" if name == "small" or not first else "out_of_memory",
        }

    monkeypatch.setattr(sweep, "_in_a_process", examine)
    problems = [("large", FILE), ("small", FILE)]
    lines = sweep._lines(problems, sweep._options(["folder", "--jobs", "2"]))
    assert [(line["problem"], line["outcome"]) for line in lines] == [
        ("small", "ok"),
        ("large", "ok"),
    ]
    assert sorted(tried[:2]) == [("large", 2), ("small", 2)]
    assert tried[2:] == [("large", 1)]
