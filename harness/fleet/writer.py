"""The one that writes a fleet's results: rows, raw samples and logs, as they come."""

from __future__ import annotations

import base64
import dataclasses
import threading
from dataclasses import dataclass, field
from pathlib import Path

from harness import files, results, samples
from harness.errors import MachineError
from harness.fleet.units import Message
from harness.records import Row, Value
from harness.run import Job, Observer, Request

#: Numbers of a problem and of its solution, in the request.
Where = tuple[int, int]


@dataclass(kw_only=True)
class Writer:
    """Writes rows to the file of their device's model, and tells the observer."""

    request: Request
    observer: Observer
    total: int
    rows: dict[Where, Row] = field(default_factory=dict)
    _earlier: dict[Path, list[dict[str, Value]]] = field(default_factory=dict)
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def file(self, device_name: str) -> Path:
        """Where the rows of a device go."""
        return self.request.output or results.file_for(device_name, self.request.results_dir)

    def write(self, where: Where, message: Message) -> None:
        """What a judge says of one solution. Raises `MachineError` where it cannot be written."""
        row = results.to_row(message["row"])
        if not message["known"]:
            row = self._kept(row, message)
            if not self.request.build_only:
                results.append(self.file(row.environment.device_name), row)
        self.rows[where] = row
        self.observer.progress(len(self.rows), self.total)
        self.observer.row(row)

    def settled(self, device_name: str, job: Job) -> list[dict[str, Value]]:
        """Flat rows of earlier runs on such a device about these texts. From any thread."""
        if self.request.fresh or self.request.build_only:
            return []
        file = self.file(device_name)
        with self._reading:
            if file not in self._earlier:
                self._earlier[file] = results.plain(results.read(file)) if file.exists() else []
        digests = {solution.name: solution.digest for solution in job.solutions}
        return [
            row
            for row in self._earlier[file]
            if row["problem"] == job.problem.name
            and row["problem_digest"] == job.problem.digest
            and digests.get(str(row["solution"]), row["solution_digest"]) == row["solution_digest"]
            and (row["solution"] in digests or self.request.self_check)
        ]

    def _kept(self, row: Row, message: Message) -> Row:
        """Raw samples and log in files of their own; the row, which names the log."""
        folder = self.request.folder
        if message.get("samples"):
            name = samples.name_of(row.run_id, row.problem, row.solution)
            path = files.unused(samples.file_for(name, folder / "raw"))
            _write(path, base64.b64decode(message["samples"]))
        if not row.log:
            return row
        log = (folder / "logs" / row.run_id / Path(row.log).name).absolute()
        if message.get("log") is not None:
            _write(log, message["log"].encode())
        here = Path.cwd()
        named = log.relative_to(here) if log.is_relative_to(here) else log
        return dataclasses.replace(row, log=str(named))


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, data)
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from None
