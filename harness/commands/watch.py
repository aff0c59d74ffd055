"""`--watch`: evaluate again whenever a file is saved, with the change against the last verdict.

Files are polled: works on every file system, and twice a second costs nothing. What counts is a
file's text: saving it unchanged is no change. Covers the problem's file and the solutions that
the request names; a solution added to the folder meanwhile is seen at the next change.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import run
from harness.judge.case import Opened
from harness.records import Row, Value
from harness.report import changes, compare_tables
from harness.report.changes import Kind

POLL_S = 0.5
SETTLE_S = 0.1  # an editor may write a file in several steps


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One evaluation: all rows, and what changed against the one before, in lines."""

    rows: list[Row]
    changes: list[str]


class Watcher:
    """Evaluates a request again and again. Only what has changed is measured anew; the reference
    too, unless it was some minutes ago (`judge.case.Opened`)."""

    def __init__(self, request: run.Request) -> None:
        self._request = request
        self._opened = Opened()
        self._last: dict[tuple[str, ...], dict[str, Value]] = {}
        self._files: list[Path] = []
        self._texts: dict[Path, str] = {}

    def evaluate(self, observer: run.Observer) -> Seen:
        """Evaluate what has changed. Raises as `run.execute` does."""
        self._texts = _texts(self._files)  # what is saved from now on is a change
        jobs = run.find(self._request)
        found = [Path(s.path) for job in jobs for s in job.solutions]
        self._files = [*(Path(job.problem.path) for job in jobs), *found]
        self._texts = _texts(self._files)
        rows = run.execute(self._request, observer, self._opened)
        self._request = dataclasses.replace(self._request, fresh=False)
        lines = [line for row in rows for line in self._compared(row)]
        return Seen(rows=rows, changes=lines)

    def _compared(self, row: Row) -> Sequence[str]:
        key = (row.problem, row.solution, row.size, row.dtype)
        before, now = self._last.get(key), row.flat()
        self._last[key] = now
        if before is None or before["solution_digest"] == now["solution_digest"]:
            return []
        found = [c for c in changes.between(before, now) if c.kind is not Kind.SAME]
        lines = [compare_tables.change_text(change) for change in found]
        return lines or [f"{row.problem} / {row.solution}: no change beyond the interval"]

    def wait(self) -> None:
        """Return when the text of a file is another one. A file that is gone is waited for."""
        while True:
            time.sleep(POLL_S)
            now = _texts(self._files)
            if now != self._texts and len(now) == len(self._files):
                time.sleep(SETTLE_S)
                return


def _texts(files: Sequence[Path]) -> dict[Path, str]:
    """File -> digest of what it holds; without those that cannot be read just now."""
    found = {}
    for file in files:
        try:
            found[file] = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError:
            continue
    return found
