"""The clock of the phases; what becomes of failures is in test_evaluate."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from harness.judge import verdicts
from harness.judge.process.sandbox import WorkerFault
from harness.judge.rows import Findings
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


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (WorkerFault({"kind": "compile", "message": "no", "text": "log"}), Status.COMPILE_ERROR),
        (ZeroDivisionError(), Status.HARNESS_ERROR),
    ],
)
@pytest.mark.parametrize("log", ["/dev/full", "/nowhere/x.log", "whole"])
def test_a_verdict_stands_where_its_log_cannot_be_written(
    tmp_path: Path, failure: Exception, status: Status, log: str
) -> None:
    """It ended the run in a traceback: on a full disk, every solution that failed."""
    path = tmp_path / log
    context = mock.Mock(log=lambda name: path)
    with (
        pytest.raises(verdicts.Ended) as ended,
        verdicts.verdicts(verdicts.Progress(), context, "x", Findings()),
    ):
        raise failure
    assert ended.value.verdict.status is status
    assert log != "whole" or os.path.getsize(path) > 0
