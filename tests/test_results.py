"""Rows on disk: nothing written is lost or changed, nothing damaged stops a run."""

from __future__ import annotations

import csv
import dataclasses
import fcntl
import logging
import multiprocessing
import os
import re
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest

from harness import results
from harness.errors import MachineError, RequestError
from harness.lines import KINDS
from harness.records import (
    COLUMNS,
    MODES,
    Environment,
    Memory,
    ModeResult,
    Phase,
    Row,
    Status,
    Verdict,
)

NAMES = [
    "NVIDIA H100 80GB HBM3",
    'RTX 4090, rev "A"',
    "MI250X / MI250",
    "NA",
    "nan",
    "None",
    "null",
    "1e5",
    "True",
    " padded ",
    "line\nbreak",
    "carriage\rreturn\r\n",
    "carriage\ralone",
    "'quoted'",
    '"',
    *(f"{first}1+1" for first in "=+-@\t\n ＝"),
    "'=1+1",
    "''=1+1",
    "'",
    "тест ® 测试",
    "-",
    "#",
]


def make(status: Status = Status.PASS, *, device: str = "H100", **changes: Any) -> Row:
    row = Row(
        run_id="r1",
        time="2026-01-02T03:04:05Z",
        problem="kl_div",
        problem_digest="p" * 16,
        solution="fused",
        solution_digest="s" * 16,
        size="full",
        dtype="float32",
        settings_digest="c" * 12,
        harness_version="0.1.0",
        schema_version=results.SCHEMA_VERSION,
        environment=Environment(
            device_name=device,
            driver="580.1",
            torch="2.14.1",
            python="3.11.7",
            host="h",
            cpu_threads=4,
            sm_clock_mhz=1980,
            power_limit_w=700.0,
        ),
        verdict=Verdict(status=status, phase=Phase.DONE),
        modes={
            mode: ModeResult(
                reference_ms=0.1 + 0.2,
                solution_ms=1 / 3,
                speedup=2.0,
                low=1.9999999999999998,
                high=5e-324,
                epochs=7,
            )
            for mode in MODES
        },
        memory=Memory(training_peak_mib=1.5),
        flags=("beats_limit", "noisy"),
        total_s=1e22,
    )
    return dataclasses.replace(row, **changes)


def fill(path: Path, count: int = 3) -> list[dict[str, Any]]:
    rows = [make(solution=f"s{i}") for i in range(count)]
    for row in rows:
        results.append(path, row)
    return [row.flat() for row in rows]


def read(path: Path) -> list[dict[str, Any]]:
    return results.plain(results.read(path))


# --- round trip ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_row_reads_back_identically_whatever_a_device_is_called(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "x.csv"
    row = make(
        device=name,
        verdict=Verdict(status=Status.WRONG_OUTPUT, phase=Phase.FORWARD, message=name),
        log=name,
        isolation=name,
    )
    results.append(path, row)
    results.append(path, make())
    assert read(path) == [row.flat(), make().flat()]
    assert results.read(path)["device_name"].tolist() == [name, "H100"]


@pytest.mark.parametrize("text", ["=c|' /C calc'!A", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "＝1"])
def test_no_text_stands_in_the_file_as_a_formula(tmp_path: Path, text: str) -> None:
    """Solutions are named by whoever sends them, and messages quote them."""
    verdict = Verdict(status=Status.CRASH, phase=Phase.TIME, message=text)
    row = make(device=text, problem=text, solution=text, verdict=verdict, log=text)
    row = dataclasses.replace(row, error_ratio=-1.5)
    results.append(tmp_path / "x.csv", row)
    with (tmp_path / "x.csv").open(newline="") as file:
        (cells,) = csv.DictReader(file)
    marked = [name for name, cell in cells.items() if cell == f"'{text}"]
    assert marked == ["problem", "solution", "device_name", "message", "log"]
    assert cells["error_ratio"] == "-1.5"
    assert read(tmp_path / "x.csv") == [row.flat()]


def test_any_csv_reader_understands_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    results.append(path, make(device='RTX 4090, rev "A"'))
    with path.open(newline="") as file:
        lines = list(csv.reader(file))
    assert tuple(lines[0]) == COLUMNS
    assert [len(line) for line in lines] == [len(COLUMNS)] * 2
    assert pd.read_csv(path)["device_name"][0] == 'RTX 4090, rev "A"'


def test_missing_is_missing_and_empty_text_is_empty_text(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    row = make(Status.SKIPPED, modes={}, memory=None, flags=(), total_s=None)
    results.append(path, row)
    frame = results.read(path)
    assert read(path) == [row.flat()]
    assert frame["message"][0] == ""
    assert frame["flags"][0] == ""
    assert frame["device_uuid"][0] is None
    assert pd.isna(frame["forward_speedup"][0])
    assert pd.isna(frame["total_s"][0])


def test_columns_have_the_types_of_the_records(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    fill(path)
    results.append(path, make(environment=Environment(**_bare_environment())))
    frame = results.read(path)
    assert tuple(frame.columns) == COLUMNS
    assert set(KINDS) == set(COLUMNS)
    kinds = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    whole = {n for n, k in kinds.items() if k == "Int64"}
    assert whole >= {"schema_version", "cpu_threads", "sm_clock_mhz", "forward_epochs"}
    assert whole == {n for n, k in KINDS.items() if k in ("int", "int | None")}
    assert set(KINDS.values()) <= {"int", "int | None", "float | None", "str", "str | None"}
    assert kinds["power_limit_w"] == kinds["forward_speedup"] == kinds["error_ratio"] == "float64"
    assert {type(value) for value in frame["device_name"]} == {str}
    assert frame["sm_clock_mhz"][0] == 1980
    assert frame["sm_clock_mhz"][3] is pd.NA


def _bare_environment() -> dict[str, Any]:
    return {"device_name": "cpu", "torch": "2", "python": "3", "host": "h", "cpu_threads": 1}


def test_odd_text_and_numbers_are_written_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    verdict = Verdict(status=Status.CRASH, phase=Phase.TIME, message="a\0b \ud800 " + "x" * 300_000)
    nan, inf = float("nan"), float("inf")
    results.append(path, make(verdict=verdict, error_ratio=nan, total_s=inf))
    found = read(path)[0]
    assert found["message"] == "a\\x00b \\ud800 " + "x" * 300_000
    assert found["error_ratio"] is None
    assert found["total_s"] == inf


@pytest.mark.parametrize("column", ["status", "phase"])
def test_a_row_of_a_later_version_is_one_line_that_says_so(column: str) -> None:
    row = make().flat() | {column: "of tomorrow"}
    with pytest.raises(RequestError, match=f"{column} 'of tomorrow', which this version does not"):
        results.to_row(row)


@pytest.mark.parametrize("column", results.REQUIRED)
def test_a_file_that_lacks_a_column_that_rows_need_is_no_results_file(
    tmp_path: Path, column: str
) -> None:
    path = tmp_path / "x.csv"
    fill(path)
    pd.read_csv(path, dtype=str).drop(columns=column).to_csv(path, index=False)
    with pytest.raises(RequestError, match=f"is no results file: it lacks the columns {column}$"):
        results.read(path)


def test_to_row_is_the_inverse_of_flat(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for row in (
        make(),
        make(Status.FORWARD_ONLY),
        make(Status.SKIPPED, modes={}, memory=None, flags=()),
        make(reference_memory=Memory(inference_peak_mib=0.0), own_share=0.5, isolation="strict"),
    ):
        results.append(path, row)
        assert results.to_row(row.flat()).flat() == row.flat()
    rows = [results.to_row(values) for values in read(path)]
    assert rows[0] == make()
    assert [row.verdict.status for row in rows[:3]] == ["pass", "forward_only", "skipped"]
    assert rows[2].modes == {}
    assert rows[2].memory is None


# --- files that are not whole -------------------------------------------------------------------


def test_a_new_file_gets_a_header_and_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "x.csv"
    results.append(path, make())
    results.append(path, make())
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
    assert path.read_text().count("run_id") == 1


@pytest.mark.parametrize(
    "tail",
    [
        "r1,2026",
        'r1,2026,kl_div,"an open quote, ',
        'r1,"an open quote\nover two lines',
        "r1,2026,kl_div\n",
        "r1" + "," * 200 + "\n",
        "r1,té".encode()[:-1],
        b"\0" * 512,
        b"\0" * 512 + b"\n",
        "<<<<<<< HEAD\n",
    ],
)
def test_a_damaged_tail_is_left_out_by_who_reads_and_set_aside_by_who_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tail: str | bytes
) -> None:
    path = tmp_path / "x.csv"
    rows = fill(path)
    damage = tail.encode() if isinstance(tail, str) else tail
    with path.open("ab") as file:
        file.write(damage)
    before = path.read_bytes()
    assert read(path) == rows
    assert re.search(r"\d damaged lines? left out", caplog.text)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])
    results.append(path, make(solution="next"))
    assert (tmp_path / "x.csv.partial").read_bytes().strip(b"\n") == damage.strip(b"\n")
    assert "set aside in x.csv.partial" in caplog.text
    caplog.clear()
    assert read(path) == [*rows, make(solution="next").flat()]
    assert caplog.text == ""


def test_a_file_cut_anywhere_keeps_every_whole_row(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = [make(solution=f"s{i}", device='a, "b"\nc') for i in range(2)]
    for row in rows:
        results.append(path, row)
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    second = whole.rindex(b"\nr1,") + 1
    edges = [end + step for end in (header, second, len(whole)) for step in (-1, 0, 1)]
    for cut in sorted({*range(0, len(whole), 61), *edges}):
        path.write_bytes(whole[:cut])
        results.append(path, make(solution="next"))
        kept = (cut >= second) + (cut >= len(whole))
        expected = [row.flat() for row in rows[:kept]] + [make(solution="next").flat()]
        assert read(path) == expected, cut
        assert not list(tmp_path.glob("*.schema*")), cut  # half a header is no other schema
        (tmp_path / "x.csv.partial").unlink(missing_ok=True)


def test_a_damaged_line_in_the_middle_takes_no_other_with_it(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = fill(path)
    lines = path.read_text().splitlines(keepends=True)
    lines.insert(2, 'r1,2026,"torn')  # and the next row was appended to it
    lines.insert(4, "\n")
    path.write_text("".join(lines))
    assert read(path) == [rows[0], rows[2]]
    results.append(path, make(solution="next"))
    assert read(path) == [rows[0], rows[2], make(solution="next").flat()]
    assert "torn" in (tmp_path / "x.csv.partial").read_text()


def test_a_number_that_is_none_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = fill(path)
    path.write_text(path.read_text().replace("700.0", "7oo", 1))
    assert read(path) == rows[1:]


def test_whole_files_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    fill(path)
    before, inode = path.read_bytes(), path.stat().st_ino
    results.read(path)
    results.append(path, make())
    assert path.read_bytes().startswith(before)
    assert path.stat().st_ino == inode
    assert [file.name for file in tmp_path.iterdir()] == ["x.csv"]


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = fill(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read(path) == rows


def test_an_empty_file_is_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.touch()
    assert read(path) == []
    assert results.read(path)["forward_speedup"].dtype == "float64"
    results.append(path, make())
    assert read(path) == [make().flat()]


def test_a_file_of_another_schema_is_moved_aside_and_still_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.csv"
    fill(path)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame["schema_version"] = "7"
    frame["colour"] = "red"
    frame.drop(columns=["host", "forward_speedup"]).to_csv(path, index=False)
    old = path.read_bytes()
    found = read(path)
    assert path.read_bytes() == old  # reading leaves it alone
    assert [row["solution"] for row in found] == ["s0", "s1", "s2"]
    assert {row["host"] for row in found} == {None}
    assert {row["forward_speedup"] for row in found} == {None}
    for number in ("", ".2"):
        path.write_bytes(old)
        results.append(path, make())
        assert (tmp_path / f"x.schema7{number}.csv").read_bytes() == old
        assert read(path) == [make().flat()]
    assert "moved to x.schema7.csv" in caplog.text


def test_a_file_of_an_earlier_version_gets_the_columns_that_it_lacks(tmp_path: Path) -> None:
    path, newer = tmp_path / "x.csv", ["settings", "forward_least_bytes"]
    fill(path)
    before = read(path)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame.drop(columns=newer).to_csv(path, index=False)
    with path.open("a") as file:
        file.write("cut sho")
    results.append(path, make())
    assert read(path) == [row | dict.fromkeys(newer) for row in before] + [make().flat()]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.csv", "x.csv.partial"]


def test_a_file_of_something_else_is_not_read_and_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(RequestError, match="is no results file"):
        results.read(path)
    results.append(path, make())
    assert (tmp_path / "notes.schema0.csv").read_text() == "a,b\n1,2\n"


def test_missing_files_and_folders_that_cannot_be_written_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        results.read(tmp_path / "none.csv")
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="--output"):
        results.append(tmp_path / "file" / "x.csv", make())
    with pytest.raises(MachineError, match="cannot write"):
        results.append(tmp_path, make())


# --- several at once ----------------------------------------------------------------------------


def _writer(path: Path, name: str, count: int, start: Any = None) -> None:
    logging.disable(logging.WARNING)
    if start is not None:
        start.wait(60)
    for i in range(count):
        message = Verdict(status=Status.PASS, phase=Phase.DONE, message="m" * 3000)
        results.append(path, make(solution=f"{name}{i}", verdict=message))


@pytest.mark.parametrize("damaged", [False, True])
def test_processes_that_append_at_once_never_interleave(tmp_path: Path, damaged: bool) -> None:
    path = tmp_path / "x.csv"
    if damaged:
        fill(path, 1)
        with path.open("a") as file:
            file.write("torn,")
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_writer, args=(path, n, 15), daemon=True) for n in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    names = [row["solution"] for row in read(path)]
    expected = [f"{n}{i}" for n in "abcd" for i in range(15)]
    assert sorted(names) == sorted(expected + ["s0"] * damaged)
    partial = tmp_path / "x.csv.partial"
    assert (partial.read_text() if partial.exists() else "") == "torn,\n" * damaged


@pytest.mark.parametrize("replaced", [False, True])
def test_who_waited_for_the_lock_writes_to_the_file_that_is_there_then(
    tmp_path: Path, replaced: bool
) -> None:
    path = tmp_path / "x.csv"
    fill(path, 1)
    context = multiprocessing.get_context("fork")
    start = context.Event()
    writer = context.Process(target=_writer, args=(path, "w", 1, start), daemon=True)
    writer.start()  # before the lock is taken, or it would hold it too
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        start.set()
        writer.join(0.5)
        assert writer.is_alive()  # it waits
        assert len(path.read_text().splitlines()) == 2
        if replaced:
            shutil.copy(path, tmp_path / "new.csv")
            (tmp_path / "new.csv").replace(path)
    writer.join(60)
    assert writer.exitcode == 0
    assert [row["solution"] for row in read(path)] == ["s0", "w0"]


def test_a_row_is_on_the_disk_when_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd)))
    path = tmp_path / "x.csv"
    results.append(path, make())
    assert path.stat().st_size in synced


# --- what counts --------------------------------------------------------------------------------


def test_latest_keeps_the_newest_row_of_each_key(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for time, solution, device, run in (
        ("2026-01-01T00:00:02Z", "a", "H100", "new"),
        ("2026-01-01T00:00:01Z", "a", "H100", "old"),
        ("2026-01-01T00:00:01Z", "a", "A100", "other device"),
        ("2026-01-01T00:00:01Z", "b", "H100", "first"),
        ("2026-01-01T00:00:01Z", "b", "H100", "same time, later line"),
    ):
        results.append(path, make(time=time, solution=solution, device=device, run_id=run))
    frame = results.read(path)
    expected = ["new", "other device", "same time, later line"]
    assert results.latest(frame)["run_id"].tolist() == expected
    twice = pd.concat([frame, frame])  # the same file named twice changes nothing
    assert sorted(results.latest(twice)["run_id"]) == sorted(expected)


WANTED = {
    "problem": "kl_div",
    "solution": "fused",
    "problem_digest": "p" * 16,
    "solution_digest": "s" * 16,
    "size": "full",
    "dtype": "float32",
    "device_name": "H100",
    "settings_digest": "c" * 12,
}


def test_what_is_done_is_found_and_is_the_row(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    results.append(path, make(time="2026-01-01T00:00:00Z", run_id="old"))
    results.append(path, make())
    assert results.Done(results.read(path)).find(**WANTED) == make().flat()


@pytest.mark.parametrize("key", [*WANTED, "harness_version"])
def test_a_row_of_anything_else_settles_nothing(tmp_path: Path, key: str) -> None:
    path = tmp_path / "x.csv"
    results.append(path, make())
    wanted = {"harness_version": "0.1.0", **WANTED}
    frame = results.read(path)
    assert results.Done(frame).find(**wanted) is not None
    assert results.Done(frame).find(**{**wanted, key: "other"}) is None


@pytest.mark.parametrize("status", list(Status))
def test_only_verdicts_on_the_solution_settle_an_evaluation(tmp_path: Path, status: Status) -> None:
    path = tmp_path / "x.csv"
    results.append(path, make(status))
    again = ("harness_error", "reference_error", "skipped", "built")
    assert (results.Done(results.read(path)).find(**WANTED) is None) == (status.value in again)


def test_the_newest_row_of_any_size_counts_and_of_equal_times_the_later_line() -> None:
    rows = [
        make(time="2026-01-03T00:00:00Z", size="a", run_id="newest"),
        make(time="2026-01-01T00:00:00Z", size="b", run_id="old"),
        make(time="2026-01-02T00:00:00Z", size="c", run_id="first"),
        make(time="2026-01-02T00:00:00Z", size="c", run_id="second"),
    ]
    done = results.Done(results.frame_of(row.flat() for row in rows))
    for size, run_id in ((None, "newest"), ("b", "old"), ("c", "second"), ("d", None)):
        found = done.find(**{**WANTED, "size": size})
        assert (found and found["run_id"]) == run_id


def test_taking_up_a_run_of_thousands_takes_its_rows_apart_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One look at the frame for each solution took five times as long as 2000 short verdicts."""
    taken = mock.Mock(side_effect=results.plain)
    monkeypatch.setattr(results, "plain", taken)
    done = results.Done(results.frame_of(make(solution=f"s{n}").flat() for n in range(9)))
    found = [done.find(**{**WANTED, "solution": f"s{n}"}) for n in range(10)]
    assert [row and row["solution"] for row in found] == [*(f"s{n}" for n in range(9)), None]
    assert taken.call_count == 1


def test_a_later_failure_of_the_harness_does_not_undo_a_verdict(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    results.append(path, make())
    results.append(path, make(Status.HARNESS_ERROR, time="2027-01-01T00:00:00Z"))
    found = results.Done(results.read(path)).find(**WANTED)
    assert found is not None
    assert found["status"] == "pass"


def test_an_evaluation_killed_in_the_middle_resumes_with_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    fill(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])  # killed while it wrote the third row
    frame = results.read(path)
    left = [
        name
        for name in ("s0", "s1", "s2")
        if not results.Done(frame).find(**{**WANTED, "solution": name})
    ]
    assert left == ["s2"]


def test_an_empty_file_settles_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.csv").touch()
    assert results.Done(results.read(tmp_path / "x.csv")).find(**WANTED) is None


# --- names --------------------------------------------------------------------------------------


def test_file_names_are_short_safe_and_never_shared(tmp_path: Path) -> None:
    names = [*NAMES, "x" * 500, "x" * 499, "", "..", ".", "a_b", "a b", "a  b", "a/b", "CPU", "-rf"]
    files = [results.file_for(name, tmp_path) for name in names]
    assert len({str(file).lower() for file in files}) == len(names)
    for file in files:
        assert file.parent == tmp_path
        assert len(file.name) <= 80
        assert file.name.isascii()
        assert file.name[0] not in ".-_"
        assert file.suffix == ".csv"
    assert files[0].name == "NVIDIA_H100_80GB_HBM3.csv"
    assert results.file_for("RTX 4090, rev A", tmp_path).name.startswith("RTX_4090_rev_A-")


def test_what_others_do_to_a_file_between_two_appends_is_seen(tmp_path: Path) -> None:
    """A file is not read again after an append of one's own, unless it has changed."""
    path = tmp_path / "h100.csv"
    results.append(path, make())
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"cut sho")
    results.append(path, make())
    with path.open("r+b") as file:  # damage that leaves the size as it is
        file.seek(size + 1)
        file.write(b"\0")
    results.append(path, make())
    path.unlink()
    results.append(path, make())
    assert len(results.read(path)) == 1
    partial = path.with_name("h100.csv.partial").read_bytes()
    assert partial.startswith(b"cut sho\n")
    assert b"\0" in partial
