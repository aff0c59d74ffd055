"""What is measured of a reference alone, and what of the device only once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support import TINY, Bench

from harness import config
from harness.judge.process.sandbox import Worker
from harness.judge.subject import Subject
from harness.judge.timing import baseline


def test_what_the_device_can_do_is_measured_with_the_first_reference_that_asks(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    ask = Worker.ask

    def spy(self: Worker, order: str, **arguments: Any) -> Any:
        if order == "calibrate":
            asked.append(arguments)
        return ask(self, order, **arguments)

    monkeypatch.setattr(Worker, "ask", spy)
    context = bench.context()
    subject = Subject(problem=bench.problem(TINY), size="full")
    found = [
        baseline.measure(context, subject, modes=("forward",), flops=flops)
        for flops in (False, True, True)
    ]
    assert [a["bandwidth"] for a in asked] == [True, False, False]
    assert [a["flops"] for a in asked] == [False, True, False]
    assert len({f.bandwidth for f in found}) == 1
    assert found[0].bandwidth
    assert [f.flops_per_s is None for f in found] == [True, False, False]


@pytest.mark.parametrize(
    ("device", "known", "quick", "epochs"),
    [
        ("cuda", False, False, 5),  # an A/A test
        ("cuda", True, False, baseline.EPOCHS_KNOWN),
        ("cuda", False, True, baseline.EPOCHS_KNOWN),
        ("cpu", True, True, 5),
    ],
)
def test_eager_gets_fewer_epochs_where_no_noise_is_asked_for(
    device: str, known: bool, quick: bool, epochs: int
) -> None:
    context: Any = SimpleNamespace(
        settings=config.load(None, {"quick": quick}), device=SimpleNamespace(type=device)
    )
    subject: Any = None
    course = baseline._Baselines(
        context=context, subject=subject, modes=(), flops=False, known=known
    )
    few = course._few_epochs()
    assert (few.epochs_min, few.epochs_max) == (epochs, epochs)
