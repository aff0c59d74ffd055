"""Files that processes share: a name is one thing's alone, a file is whole or as it was."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import REFERENCE, SOLUTION, make

from harness import files, results, samples
from harness.commands import tools
from harness.errors import MachineError, RequestError


@contextlib.contextmanager
def full_disk(most_bytes: int = 64) -> Iterator[None]:
    """No file can grow beyond `most_bytes`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def tree(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with full_disk(), pytest.raises(OSError, match="too large"):
        files.replace(link, b"n" * 65)
    assert tree(tmp_path) == {target: b"old", link: b"old"}
    files.replace(link, b"new")
    assert link.is_symlink()
    assert tree(tmp_path) == {target: b"new", link: b"new"}
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    files.replace(pipe, b"new")
    reader.join(10)
    assert (found, pipe.is_fifo()) == ([b"new"], True)


@pytest.mark.parametrize(
    "command",
    [
        ["report", "rows.csv", "--output", "out/report.html"],
        ["report", "rows.csv", "--output", "out/report.md", "--format", "markdown"],
        ["export", "rows.csv", "--output", "out"],
        ["import", "set.jsonl", "--to", "out"],
    ],
)
def test_a_command_on_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    results.append(Path("rows.csv"), make(problem="level1/1_A"))
    row = {"level": 1, "task_id": 1, "reference": REFERENCE, "candidate": SOLUTION}
    Path("set.jsonl").write_text(json.dumps(row))
    if command[0] != "import":  # which asks for a new folder
        tools.COMMANDS[command[0]](command[1:])
    before = tree(tmp_path)
    with full_disk(), pytest.raises(MachineError, match="File too large"):
        tools.COMMANDS[command[0]](command[1:])
    assert tree(tmp_path) == before
    tools.COMMANDS[command[0]](command[1:])
    assert len(tree(tmp_path)) > 2


def test_raw_samples_on_a_full_disk_leave_no_half_of_them(tmp_path: Path) -> None:
    with full_disk(32), pytest.raises(MachineError, match="File too large"):
        samples.save(tmp_path, "name", {})
    assert tree(tmp_path) == {}


def test_a_report_never_takes_the_place_of_the_results(tmp_path: Path) -> None:
    results.append(tmp_path / "rows.csv", make())
    (tmp_path / "link.csv").symlink_to("rows.csv")
    before = tree(tmp_path)
    for name in ("rows.csv", "link.csv"):
        with pytest.raises(RequestError, match="holds the results"):
            tools.COMMANDS["report"]([str(tmp_path / "rows.csv"), "--output", str(tmp_path / name)])
    assert tree(tmp_path) == before
