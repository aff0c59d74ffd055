"""Watching: what is saved is evaluated again, with the change; what is not, is not."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from support import HONEST, QUICK, TINY

from harness import cli, config, run
from harness.commands import watch
from harness.commands.watch import Watcher
from harness.judge import case
from harness.judge.timing import baseline
from harness.judge.timing.baseline import Baseline
from harness.records import Status

WRONG = HONEST.replace("mean(dim=1)", "sum(dim=1)")
BROKEN = "class ModelNew(:\n"


@pytest.fixture
def request_of(tmp_path: Path) -> Iterator[functools.partial[run.Request]]:
    """A request for the solution `mine` of `tiny`, without a measured reference."""
    for folder in ("problems", "solutions/tiny"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "problems" / "tiny.py").write_text(TINY)
    (tmp_path / "solutions" / "tiny" / "mine.py").write_text(WRONG)
    with mock.patch.object(baseline, "measure", return_value=Baseline()):
        yield functools.partial(
            run.Request,
            settings=config.Settings(**QUICK),
            problem="tiny",
            problem_dir=tmp_path / "problems",
            solution_dir=tmp_path / "solutions",
            results_dir=tmp_path / "results",
            cache_dir=tmp_path / "cache",
        )


def test_a_saved_file_is_evaluated_again_with_the_change(
    request_of: functools.partial[run.Request], tmp_path: Path
) -> None:
    file = tmp_path / "solutions" / "tiny" / "mine.py"
    watcher = Watcher(request_of())
    first = watcher.evaluate(run.Silent())
    assert [row.verdict.status for row in first.rows] == [Status.WRONG_OUTPUT]
    assert first.changes == []
    threading.Timer(0.2, file.write_text, [BROKEN]).start()
    watcher.wait()
    second = watcher.evaluate(run.Silent())
    assert [row.verdict.status for row in second.rows] == [Status.CONTRACT_ERROR]
    (line,) = second.changes
    assert "wrong_output → contract_error" in line
    assert "its text has changed" in line


def test_saving_the_same_text_is_no_change_and_a_file_that_is_gone_is_waited_for(
    request_of: functools.partial[run.Request], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "solutions" / "tiny" / "mine.py"
    file.write_text(BROKEN)
    watcher = Watcher(request_of())
    watcher.evaluate(run.Silent())
    steps = iter(
        [
            lambda: file.write_text(BROKEN),  # saved, unchanged
            file.unlink,  # an editor that renames
            lambda: None,
            lambda: file.write_text(BROKEN + "# more\n"),
            lambda: None,  # the file settles
        ]
    )
    monkeypatch.setattr(watch.time, "sleep", lambda _: next(steps)())
    watcher.wait()
    assert next(steps, None) is None


def test_what_has_not_changed_is_not_measured_again(
    request_of: functools.partial[run.Request], tmp_path: Path
) -> None:
    (tmp_path / "solutions" / "tiny" / "other.py").write_text(HONEST)
    watcher = Watcher(request_of(fresh=True))
    runs = {row.solution: row.run_id for row in watcher.evaluate(run.Silent()).rows}
    (tmp_path / "solutions" / "tiny" / "mine.py").write_text(BROKEN)
    again = {row.solution: row.run_id for row in watcher.evaluate(run.Silent()).rows}
    assert again["other"] == runs["other"]
    assert again["mine"] != runs["mine"]


def test_the_reference_is_made_ready_once_for_all_that_is_saved(
    request_of: functools.partial[run.Request], tmp_path: Path
) -> None:
    file, problem = tmp_path / "solutions/tiny/mine.py", tmp_path / "problems/tiny.py"
    watcher = Watcher(request_of())
    with mock.patch.object(case, "open_case", wraps=case.open_case) as opens:
        watcher.evaluate(run.Silent())
        file.write_text(HONEST)
        assert [row.verdict.status for row in watcher.evaluate(run.Silent()).rows] == [Status.PASS]
        assert opens.call_count == 1
        problem.write_text(TINY + "# saved\n")
        watcher.evaluate(run.Silent())
        assert opens.call_count == 2


def test_an_interrupt_ends_watching_with_the_status_of_the_last_rows(
    request_of: functools.partial[run.Request],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "solutions" / "tiny" / "mine.py"
    file.write_text(BROKEN)
    (tmp_path / "quick.yaml").write_text(
        json.dumps(
            {k: v for k, v in QUICK.items() if v != ()}
            | {"modes": ["forward"], "compile_baseline": []}
        )
    )
    waits = iter([lambda: file.write_text(HONEST), lambda: file.unlink()])

    def wait(self: Watcher) -> None:
        step = next(waits, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(Watcher, "wait", wait)
    places = {"results_dir": tmp_path / "results", "cache_dir": tmp_path / "cache"}
    monkeypatch.setattr(run, "Request", functools.partial(run.Request, **places))
    folders = [f"--{n}-dir={tmp_path / f'{n}s'}" for n in ("problem", "solution")]
    quick = f"--config={tmp_path / 'quick.yaml'}"
    status = cli.main(["--problem", "tiny", "--solution", "mine", *folders, quick, "--watch"])
    out, err = capsys.readouterr()
    assert status == 0  # the last rows passed; the file that went away later is told
    assert "contract_error → pass" in out
    assert "error: no solution 'mine'" in err
    assert "watched no longer" in err


def test_a_request_that_is_wrong_is_not_watched(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--problem", "no_such_problem", "--watch"]) == 2
    assert capsys.readouterr().err.startswith("error: no problem")
