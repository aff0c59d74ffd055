"""The commands for suites from elsewhere, from a result set to KernelBench's files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from examples import REFERENCE, make, row

from harness import cli, lines, results, samples
from harness.records import COLUMNS, Block, Epoch, Timing

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*arguments: str | Path) -> tuple[int, str, str]:
        status = cli.main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run_it


def test_from_a_result_set_to_kernelbenchs_files(command: Run, tmp_path: Path) -> None:
    base = {"level_id": 1, "task_id": 1, "ref_code": REFERENCE}
    rows = [base | {"custom_code": code} for code in ("None", "def f(:")]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, rows)))
    status, told, _ = command("import", tmp_path / "set.jsonl", "--to", tmp_path / "in")
    assert status == 0
    assert "1 problem and 2 solutions" in told
    assert "1 of them without code" in told
    then = told.splitlines()[-1].partition("run_eval.py ")[2].split()
    output = tmp_path / "out.csv"
    assert command(*then, "--device", "cpu", "--output", output)[0] == 1
    assert list(results.read(output)["status"]) == ["contract_error"] * 2
    status, told, _ = command("metrics", output, "--json", "-k", "1,2")
    (section, *_) = json.loads(told)["sections"]
    assert (status, section["level"], section["problems"], section["right"]) == (0, "level1", 1, 0)
    assert section["passes"]["2"]["counted"] == 0
    status, told, _ = command("export", output, "--output", tmp_path / "kb")
    wrote, untimed = told.splitlines()
    assert (status, wrote) == (0, f"wrote {tmp_path / 'kb' / 'level1' / 'eval_results.json'}")
    assert untimed.startswith("no reference time, since no row is credited: level1/1; ")


def test_a_solution_judged_at_two_sizes_is_one_sample(command: Run, tmp_path: Path) -> None:
    """The newest row counts, whatever its size and in whichever file; how many did not is told."""
    whole = {"schema_version": 2, "cpu_threads": 1, "phase": "done"}
    old = row("level1/1_A", "wrong_output", size="smoke", time="2026-01-01", **whole)
    new = row("level1/1_A", speedup=2.0, size="full", time="2026-01-02", run_id="new", **whole)
    files = []
    for name, one in (("b", new), ("a", old)):
        files.append(tmp_path / name / "rows.csv")
        files[-1].parent.mkdir()
        files[-1].write_bytes(lines.HEADER + lines.encode([one[column] for column in COLUMNS]))
    block = Block(reference_ms=(2.0, 2.0), solution_ms=(1.0, 1.2))
    samples.save(
        files[0].parent / "raw",
        samples.name_of("new", "level1/1_A", "sample_0"),
        {"forward": Timing(mode="forward", calls=1, epochs=(Epoch(blocks=(block,)),))},
    )
    for order in (files, files[::-1]):
        status, told, _ = command("metrics", *order, "--json", "-k", "1,2")
        found = json.loads(told)
        (section, *_) = found["sections"]
        assert (status, section["right"], section["passes"]["1"]["counted"]) == (0, 1, 1.0)
        assert section["passes"]["2"]["counted"] is None  # there is one sample
        assert list(found["left_out"].values()) == [1]
    status, told, _ = command("export", *files, "--output", tmp_path / "kb")
    assert (status, "rows left out: 1 older" in told) == (0, True)
    exported = json.loads((tmp_path / "kb" / "level1" / "eval_results.json").read_text())
    (entry,) = exported["1"]
    assert (entry["correctness"], entry["runtime_stats"]["max"]) == (True, 1.2)  # of b/raw/


def test_a_verdict_of_a_later_version_is_one_line_that_says_so(
    command: Run, tmp_path: Path
) -> None:
    output = tmp_path / "out.csv"
    results.append(output, make("a", problem="level1/1_A"))
    output.write_text(output.read_text().replace(",pass,", ",excellent,"))
    for arguments in (("metrics", output), ("export", output, "--output", tmp_path / "kb")):
        status, _, error = command(*arguments)
        assert (status, len(error.splitlines())) == (2, 1)
        assert "status 'excellent', which this version does not know" in error


def test_metrics_count_problems_alone_and_are_shown_in_80_columns(
    command: Run, tmp_path: Path
) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "level_1_problem_1_sample_0_kernel.py").write_text("None")
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "1_A.py").write_text(REFERENCE)
    output = tmp_path / "out.csv"
    where = ("--problem-dir", tmp_path / "level1", "--solution-dir", tmp_path / "s")
    command("--all", *where, "--device", "cpu", "--output", output)
    (tmp_path / "level1" / "2_B.py").write_text(REFERENCE)
    (tmp_path / "analysis.py").write_text("import json\n")  # as in KernelBench's repository
    _, shown, _ = command("metrics", output, "--problem-dir", tmp_path, "--json")
    assert {section["problems"] for section in json.loads(shown)["sections"]} == {2}
    status, shown, _ = command("metrics", output)
    assert status == 0
    table = shown.partition("a / b")[0]
    assert "fast_0.8" in table
    assert max(map(len, table.splitlines())) <= 80
    assert "…" not in table


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("metrics", "FILE", "-k", "0"), "must be whole numbers from 1"),
        (("metrics", "FILE", "-p", "x"), "must be numbers from 0"),
        (("export", "FILE", "--output", "x", "--format", "other"), "invalid choice"),
        (("import", "FILE"), "--to"),
    ],
)
def test_a_wrong_argument_is_told(command: Run, arguments: tuple[str, ...], told: str) -> None:
    status, _, error = command(*arguments)
    assert (status, len(error.splitlines())) == (2, 1)
    assert told in error


@pytest.mark.parametrize("name", ["metrics", "export"])
def test_files_without_a_row_that_counts_are_refused(
    command: Run, tmp_path: Path, name: str
) -> None:
    more = ("--output", tmp_path / "x") if name == "export" else ()
    status, _, error = command(name, tmp_path / "missing.csv", *more)
    assert (status, error.startswith("error: cannot read results")) == (2, True)
