"""A sweep names the step at which a problem was ended."""

from __future__ import annotations

from pathlib import Path

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
