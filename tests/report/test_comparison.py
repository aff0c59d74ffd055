"""Side by side: nothing is lost, unlike rows are never averaged, what differs is named."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from pathlib import Path
from typing import Any

import examples
import pytest
from rich.console import Console

from harness import cli, results
from harness.errors import RequestError
from harness.records import MODES, Environment, ModeResult, Row, Status
from harness.report import compare_tables, comparison
from harness.report.changes import Kind
from harness.report.comparison import Comparison

H100 = "NVIDIA H100 80GB HBM3"
H200 = "NVIDIA H200"
HOSTILE_NAMES = (
    'RTX 4090, rev "A"',
    "MI250X / MI250",
    "NA",
    "nan",
    "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
    "a | b\nc",
    "x" * 300,
)


def mode(speedup: float, half: float = 0.01, noise: float | None = None) -> ModeResult:
    return ModeResult(
        reference_ms=6.0,
        solution_ms=6.0 / speedup,
        speedup=speedup,
        low=speedup - half,
        high=speedup + half,
        limit_fraction=0.5,
        noise=noise,
    )


def make(
    device: str = H100,
    speedup: float = 2.0,
    *,
    status: Status = Status.PASS,
    half: float = 0.01,
    noise: float | None = None,
    environment: dict[str, Any] | None = None,
    **changes: Any,
) -> Row:
    facts: dict[str, Any] = {"torch": "2.14.1+cu130", "precision": "tf32=off"}
    row = examples.make(
        status=status,
        environment=Environment(
            device_name=device,
            python="3",
            host="h",
            cpu_threads=4,
            **(facts | (environment or {})),
        ),
        modes={m: mode(speedup, half, noise) for m in ("forward", "forward_backward")},
    )
    return dataclasses.replace(row, **changes)


@pytest.fixture
def compare(tmp_path: Path) -> Any:
    """Writes files (name -> rows), reads them back and compares them."""

    def made(**files: list[Row]) -> Comparison:
        return comparison.read(write(tmp_path, **files))

    return made


def write(folder: Path, **files: list[Row]) -> list[Path]:
    for name, rows in files.items():
        for row in rows:
            results.append(folder / f"{name}.csv", row)
    return [folder / f"{name}.csv" for name in files]


def shown(found: Comparison, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(compare_tables.screen(found))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def named(found: Comparison) -> dict[str, dict[str, tuple[str, ...]]]:
    return {d.name: dict(d.values) for d in found.differences}


# --- the join -----------------------------------------------------------------------------------


def test_equal_rows_of_two_devices_share_a_line(compare: Any) -> None:
    found = compare(a=[make(H100, 2.0)], b=[make(H200, 3.0)])
    (entry,) = found.entries
    assert {label: row["device_name"] for label, row in entry.rows.items()} == {
        "A": H100,
        "B": H200,
    }
    assert found.differences == found.notes == found.pairs == ()
    assert {mean.mode: dict(mean.values) for mean in found.means} == {
        m: {"A": pytest.approx(2.0), "B": pytest.approx(3.0)}
        for m in ("forward", "forward_backward")
    }


def test_what_is_missing_or_fails_on_one_device_stays_visible(compare: Any) -> None:
    failed = make(H200, status=Status.WRONG_OUTPUT, solution="triton")
    found = compare(a=[make(H100), make(H100, solution="triton")], b=[failed])
    assert [(e.key.solution, sorted(e.rows)) for e in found.entries] == [
        ("cuda", ["A"]),
        ("triton", ["A", "B"]),
    ]
    assert found.means == ()  # nothing that both have credited
    text = shown(found)
    assert "missing" in text
    assert "wrong_output" in text
    assert "there are none" in text


@pytest.mark.parametrize("column", ["problem_digest", "solution_digest", "size", "dtype"])
def test_unlike_rows_are_named_kept_apart_and_never_averaged(compare: Any, column: str) -> None:
    found = compare(
        a=[make(H100, 2.0), make(H100, 8.0, solution="other")],
        b=[make(H200, 5.0, **{column: "other"})],
    )
    assert len(found.entries) == 3
    assert all(len(entry.rows) == 1 for entry in found.entries)
    assert found.means == ()
    (difference,) = (d for d in found.differences if "B" in d.values)
    assert difference.apart
    assert difference.values["B"] == ("other",)
    assert "other (B); kept apart" in shown(found)


def test_means_are_of_common_rows_of_one_size_dtype_and_mode(compare: Any) -> None:
    ratios = [(2.0, 4.0), (8.0, 1.0)]
    rows = {
        "a": [make(H100, a, problem=f"p{i}") for i, (a, _) in enumerate(ratios)],
        "b": [make(H200, b, problem=f"p{i}") for i, (_, b) in enumerate(ratios)],
    }
    rows["a"] += [make(H100, 100.0, problem="only_here"), make(H100, 3.0, size="smoke")]
    rows["b"] += [make(H200, 3.0, size="smoke")]
    found = compare(**rows)
    by_size = {(m.size, m.mode): (m.count, m.values["A"], m.values["B"]) for m in found.means}
    assert by_size["full", "forward"] == (2, pytest.approx(4.0), pytest.approx(2.0))
    assert by_size["smoke", "forward"] == (1, pytest.approx(3.0), pytest.approx(3.0))


def test_of_duplicates_the_newest_counts_and_it_is_said(compare: Any) -> None:
    old = make(H100, 9.0, time="2025-01-02T03:04:05Z")
    found = compare(a=[make(H100, 2.0), old], b=[make(H200)])
    assert found.entries[0].rows["A"]["forward_speedup"] == 2.0
    assert found.notes == ("a.csv: 1 older row of the same result left out: newest counts",)


def test_a_file_named_twice_is_taken_once(tmp_path: Path) -> None:
    (path,) = write(tmp_path, a=[make()])
    found = comparison.read([path, path])
    assert len(found.sides) == 1
    assert "named twice" in found.notes[0]


# --- what differs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes", "values"),
    [
        ("torch", {"environment": {"torch": "2.13.0+cu130"}}, ("2.14", "2.13")),
        ("precision", {"environment": {"precision": "tf32=on"}}, ("tf32=off", "tf32=on")),
        ("settings", {"settings_digest": "d" * 12}, ("c" * 12, "d" * 12)),
        ("harness version", {"harness_version": "0.2.0"}, ("0.1.0", "0.2.0")),
        ("schema version", {"schema_version": 9}, (str(results.SCHEMA_VERSION), "9")),
    ],
)
def test_differences_that_matter_are_named_with_both_values(
    compare: Any, name: str, changes: dict[str, Any], values: tuple[str, str]
) -> None:
    found = compare(a=[make(H100)], b=[make(H200, **changes)])
    assert named(found) == {name: {"A": (values[0],), "B": (values[1],)}}
    assert f"{name} differs: {values[0]} (A), {values[1]} (B)" in shown(found)
    assert len(found.entries) == 1  # compared nevertheless


@pytest.mark.parametrize(
    ("told", "values"),
    [
        (("default", "trials=3"), ("default", "trials=3")),
        (("default", None), ("default", "d" * 12)),  # of an earlier version
        (("default", "default"), ("c" * 12, "d" * 12)),  # a default has changed
    ],
)
def test_settings_are_named_by_what_was_set(
    compare: Any, told: tuple[str | None, str | None], values: tuple[str, str]
) -> None:
    sides = (make(H100, settings=told[0]), make(H200, settings=told[1], settings_digest="d" * 12))
    found = compare(a=[sides[0]], b=[sides[1]])
    assert f"settings differs: {values[0]} (A), {values[1]} (B)" in shown(found)


def test_rows_can_be_narrowed_to_some_problems_and_dtypes(tmp_path: Path) -> None:
    rows = [make(H100, problem=p, dtype=d) for p in ("a", "b", "c") for d in ("float32", "float16")]
    paths = write(tmp_path, a=rows, b=rows[:1])
    found = comparison.read(paths, {"problem": ["b", "c"], "dtype": ["float16"]})
    assert {(e.key.problem, e.key.dtype) for e in found.entries} == {
        ("b", "float16"),
        ("c", "float16"),
    }
    with pytest.raises(RequestError, match=r"no rows of problem d and dtype float16 in .*a\.csv"):
        comparison.read(paths, {"problem": ["d"], "dtype": ["float16"]})


@pytest.mark.parametrize("command", [["compare"], ["report", "--format", "markdown"]])
def test_the_commands_narrow_their_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    paths = write(tmp_path, a=[make(H100, problem="first"), make(H100, problem="second")])
    assert cli.main([*command, "--problem", "second", *map(str, paths)]) == 0
    out = capsys.readouterr().out
    assert "second" in out
    assert "first" not in out


def test_a_patch_release_of_torch_is_no_difference(compare: Any) -> None:
    found = compare(a=[make(H100)], b=[make(H200, environment={"torch": "2.14.0+cu126"})])
    assert found.differences == ()


def test_drivers_matter_between_runs_on_one_device_only(compare: Any) -> None:
    drivers: list[dict[str, Any]] = [{"driver": "570.1"}, {"driver": "580.2"}]
    across = compare(a=[make(H100, environment=drivers[0])], b=[make(H200, environment=drivers[1])])
    assert across.differences == ()
    within = compare(c=[make(H100, environment=drivers[0])], d=[make(H100, environment=drivers[1])])
    assert named(within) == {"driver": {"A": ("570.1",), "B": ("580.2",)}}


# --- two runs on one device -----------------------------------------------------------------------

LATER = "2026-02-02T03:04:05Z"


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ({"speedup": 2.0}, {"speedup": 1.9}, Kind.SLOWER),
        ({"speedup": 2.0}, {"speedup": 2.1}, Kind.FASTER),
        ({"speedup": 2.0}, {"speedup": 1.985}, Kind.SAME),  # the intervals overlap
        ({"speedup": 2.0, "noise": 0.05}, {"speedup": 1.9}, Kind.SAME),  # within the noise
        ({"speedup": 2.0}, {"speedup": 1.9, "solution_digest": "edited"}, Kind.SLOWER),
        ({"speedup": 2.0, "half": math.nan}, {"speedup": 1.0}, Kind.UNCERTAIN),
    ],
)
def test_a_change_counts_beyond_interval_and_noise(
    compare: Any, before: dict[str, Any], after: dict[str, Any], kind: Kind
) -> None:
    found = compare(new=[make(time=LATER, **after)], old=[make(**before)])  # by time, not order
    (pair,) = found.pairs
    assert [change.kind for change in pair.changes] == [kind, kind]
    assert pair.regressed is (kind is Kind.SLOWER)
    assert (pair.before.file, pair.after.file) == ("old.csv", "new.csv")


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (Status.PASS, Status.WRONG_OUTPUT, Kind.BROKE),
        (Status.PASS, Status.SKIPPED, Kind.BROKE),
        (Status.PASS, Status.FORWARD_ONLY, Kind.BROKE),
        (Status.CRASH, Status.PASS, Kind.MENDED),
        (Status.CRASH, Status.TIMEOUT, Kind.VERDICT),
        (Status.CRASH, Status.CRASH, Kind.SAME),
    ],
)
def test_a_lost_verdict_is_a_regression(
    compare: Any, before: Status, after: Status, kind: Kind
) -> None:
    found = compare(old=[make(status=before)], new=[make(status=after, time=LATER)])
    (pair,) = found.pairs
    assert pair.changes[0].kind is kind
    assert pair.regressed is (kind is Kind.BROKE)


def test_gone_and_new_are_shown_and_no_regression(compare: Any) -> None:
    found = compare(old=[make(solution="left")], new=[make(solution="came", time=LATER)])
    (pair,) = found.pairs
    assert [change.kind for change in pair.changes] == [Kind.NEW, Kind.GONE]
    assert not pair.regressed
    assert "gone: kl_div / left" in shown(found)


def test_the_text_of_a_problem_makes_another_problem(compare: Any) -> None:
    found = compare(
        old=[make(speedup=9.0)], new=[make(speedup=1.0, time=LATER, problem_digest="edited")]
    )
    assert not found.pairs[0].compared
    assert not found.pairs[0].regressed


# --- the command ----------------------------------------------------------------------------------


def run(*arguments: object) -> int:
    return cli.main(["compare", *map(str, arguments)])


def test_fail_on_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, worse, same = write(
        tmp_path,
        old=[make()],
        worse=[make(speedup=1.5, time=LATER)],
        same=[make(speedup=2.001, time=LATER)],
    )
    assert run(old, worse) == 0
    assert run(old, worse, "--fail-on-regression") == 1
    assert "slower: kl_div / cuda, full, float32, forward: 2.00 ±0.01" in capsys.readouterr().out
    assert run(old, same, "--fail-on-regression") == 0


def test_fail_on_regression_without_anything_in_common_is_a_wrong_request(tmp_path: Path) -> None:
    one, other, elsewhere = write(
        tmp_path, a=[make()], b=[make(problem="mse", time=LATER)], c=[make(H200)]
    )
    assert run(one, other, "--fail-on-regression") == 2
    assert run(one, elsewhere, "--fail-on-regression") == 2
    assert run(one, elsewhere) == 0


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_any_device_name_survives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    paths = write(tmp_path, a=[make(name)], b=[make(H200)])
    assert run(*paths, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [side["device_name"] for side in found["sides"]] == [name, H200]
    assert set(found["rows"][0]["sides"]) == {"A", "B"}
    assert run(*paths, "--markdown") == 0
    text = capsys.readouterr().out
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables[:3]} == {8}
    assert max(map(len, shown(comparison.read(paths)).splitlines())) <= 100


def test_json_states_every_row_and_missing_as_null(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skipped = make(H200, status=Status.SKIPPED, solution="cpp", modes={})
    paths = write(tmp_path, a=[make(H100)], b=[skipped])
    assert run(*paths, "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    by_line = {(row["solution"], row["mode"]): row["sides"] for row in rows}
    assert by_line["cpp", None] == {"A": None, "B": {"status": "skipped"}}
    assert by_line["cuda", "forward"]["A"]["speedup"] == 2.0
    assert by_line["cuda", "forward"]["B"] is None


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_many_devices_stand_in_blocks_that_fit(compare: Any, width: int) -> None:
    files = {f"f{i}": [make(f"NVIDIA X{i}00", solution="s" * 70)] for i in range(30)}
    text = shown(compare(**files), width)
    assert max(map(len, text.splitlines())) <= min(width, 100)
    assert all(f"X{i}00" in text for i in range(30))


def test_terminal_codes_take_no_effect(tmp_path: Path) -> None:
    evil = make(H100, solution=" \x1b[2Jx", problem="[red]p\x1b[0m", size="\x1b[1m")
    assert "\x1b" not in shown(comparison.read(write(tmp_path, a=[evil])))


def test_no_rows_or_no_file_is_a_wrong_request(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_bytes(b"")
    with pytest.raises(RequestError, match="no rows"):
        comparison.read([empty])
    assert run(tmp_path / "none.csv") == 2


def test_every_mode_has_its_own_line(compare: Any) -> None:
    every = make(modes={m: mode(2.0) for m in MODES})
    (entry,) = compare(a=[every]).entries
    assert entry.modes == MODES


@pytest.mark.parametrize(
    ("device", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("AMD EPYC (2 cores)", "EPYC"),
        ("AMD EPYC 9654 96-Core Processor (192 cores)", "9654"),
        ("Intel(R) Xeon(R) Platinum 8480C (64 cores)", "8480C"),
        ("CPU", "CPU"),
    ],
)
def test_a_column_is_named_by_the_model_and_not_by_its_cores(device: str, short: str) -> None:
    assert compare_tables.short_name(device) == short
