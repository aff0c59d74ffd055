"""The clock of the phases; what becomes of failures is in test_evaluate."""

from __future__ import annotations

from unittest import mock

from harness.judge import verdicts
from harness.records import Phase, Status


def test_seconds_of_a_phase_are_those_of_all_its_visits() -> None:
    ticks = [0.0, 1.0, 3.0, 4.0, 8.0, 8.0, 8.0, 8.0]
    with mock.patch.object(verdicts.time, "monotonic", side_effect=ticks):
        progress = verdicts.Progress()
        for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.FORWARD, Phase.TIME):
            progress.enter(phase)
        assert progress.seconds(Phase.FORWARD) == 2.0 + 4.0
        assert progress.seconds(Phase.FORWARD, Phase.BACKWARD) == 2.0 + 1.0 + 4.0
        assert progress.seconds(Phase.PROFILE) is None
    assert progress.now is Phase.TIME


def test_a_message_is_one_line_of_bearable_length() -> None:
    made = verdicts.verdict(Status.CRASH, Phase.LOAD, "two\n  lines " + "x" * 2000)
    assert made.message.startswith("two lines xxx")
    assert len(made.message) == 1000
