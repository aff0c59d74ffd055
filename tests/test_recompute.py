"""A file whose figures follow from its samples agrees; one that was touched up does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import examples
import pytest

from harness import cli, recompute, results, samples
from harness.errors import RequestError
from harness.records import (
    MODES,
    Block,
    Epoch,
    ModeResult,
    Row,
    Status,
    Timing,
)


def timing(mode: str, shift: float = 0.0) -> Timing:
    blocks = [
        Block(reference_ms=(6.0 + i / 7, 6.1), solution_ms=(2.0 + shift, 1.9 + i / 9))
        for i in range(6)
    ]
    return Timing(
        mode=mode,
        calls=3,
        epochs=tuple(Epoch(blocks=tuple(blocks[i:]), disturbed=(blocks[0],)) for i in range(3)),
    )


TIMINGS = {mode: timing(mode, i / 10) for i, mode in enumerate(MODES)}


def stated(found: Timing) -> ModeResult:
    """A row's figures, as judge.evaluate takes them from the samples."""
    return ModeResult(
        reference_ms=found.reference_ms,
        solution_ms=found.solution_ms,
        speedup=found.interval.ratio,
        low=found.interval.low,
        high=found.interval.high,
        compile_speedup=1.5,
    )


def make(solution: str, status: Status = Status.PASS, **changes: Any) -> Row:
    row = examples.make(
        solution,
        status=status,
        problem="level1/1_A",
        device="d",
        modes={mode: stated(found) for mode, found in TIMINGS.items()},
    )
    return dataclasses.replace(row, **changes)


def keep(folder: Path, row: Row, timings: dict[str, Timing] | None = None) -> Path:
    """Append the row, and save its samples as a run does."""
    results.append(folder / "x.csv", row)
    name = samples.name_of(row.run_id, row.problem, row.solution)
    return samples.save(folder / "raw", name, TIMINGS if timings is None else timings)


def outcomes(folder: Path) -> dict[str, str]:
    compared = recompute.compare(folder / "x.csv", folder / "raw")
    return {str(comparison.row["solution"]): comparison.outcome for comparison in compared}


def test_honest_rows_agree_whatever_their_verdict_credits(tmp_path: Path) -> None:
    for status in Status:
        keep(tmp_path, make(status.value, status))
    keep(tmp_path, make("only forward", modes={"forward": stated(TIMINGS["forward"])}), {})
    keep(tmp_path, make("nothing", Status.CRASH, modes={}), {})
    found = outcomes(tmp_path)
    assert found.pop("only forward") == "differs"  # no samples of it are in its file
    assert set(found) == {*(status.value for status in Status), "nothing"}
    assert set(found.values()) == {"agrees"}


@pytest.mark.parametrize("field", recompute.FIELDS)
@pytest.mark.parametrize("mode", MODES)
def test_a_figure_that_was_touched_up_is_named(tmp_path: Path, mode: str, field: str) -> None:
    honest = stated(TIMINGS[mode])
    better = dataclasses.replace(honest, **{field: getattr(honest, field) * (1 + 1e-8)})
    near = dataclasses.replace(honest, **{field: getattr(honest, field) * (1 + 1e-11)})
    keep(tmp_path, make("touched", modes=make("").modes | {mode: better}))
    keep(tmp_path, make("rounded", modes=make("").modes | {mode: near}))
    touched, rounded = recompute.compare(tmp_path / "x.csv", tmp_path / "raw")
    assert rounded.differences == ()
    assert touched.differences is not None
    assert [line.split(" is ")[0] for line in touched.differences] == [f"{mode}_{field}"]


def test_a_verdict_that_was_touched_up_shows_in_what_it_credits(tmp_path: Path) -> None:
    keep(tmp_path, make("a", Status.WRONG_GRADIENT))
    path = tmp_path / "x.csv"
    for status, found in (("pass", "differs"), ("forward_only", "differs"), ("best", "differs")):
        text = path.read_text()
        path.write_text(text.replace("wrong_gradient", status))
        assert outcomes(tmp_path) == {"a": found}
        path.write_text(text)
    assert outcomes(tmp_path) == {"a": "agrees"}


def test_a_mode_that_was_timed_and_is_not_stated_differs(tmp_path: Path) -> None:
    keep(tmp_path, make("a", modes={"forward": stated(TIMINGS["forward"])}))
    [comparison] = recompute.compare(tmp_path / "x.csv", tmp_path / "raw")
    assert comparison.differences is not None
    assert comparison.differences[0].startswith("forward_train_reference_ms is missing, and the ")
    assert len(comparison.differences) == 3 * len(recompute.FIELDS)


def test_rows_without_samples_are_said_to_have_none_and_rows_without_figures_need_none(
    tmp_path: Path,
) -> None:
    keep(tmp_path, make("kept"))
    results.append(tmp_path / "x.csv", make("lost"))
    results.append(tmp_path / "x.csv", make("skipped", Status.SKIPPED, modes={}))
    assert outcomes(tmp_path) == {"kept": "agrees", "lost": "no samples"}


@pytest.mark.parametrize(
    "timings",
    [
        {"forward": dataclasses.replace(TIMINGS["forward"], epochs=())},
        {
            "forward": dataclasses.replace(
                TIMINGS["forward"],
                epochs=(
                    Epoch(blocks=(Block(reference_ms=(1e300,) * 2, solution_ms=(1e-300,) * 2),)),
                ),
            )
        },
    ],
)
def test_samples_that_give_no_figures_are_a_difference_and_no_crash(
    tmp_path: Path, timings: dict[str, Timing]
) -> None:
    keep(tmp_path, make("a"), timings)
    assert outcomes(tmp_path) == {"a": "differs"}


def test_samples_that_cannot_be_read_are_a_difference_and_no_crash(tmp_path: Path) -> None:
    path = keep(tmp_path, make("a"))
    path.write_bytes(path.read_bytes()[:-20])
    assert outcomes(tmp_path) == {"a": "differs"}


def test_the_command_says_which_rows_agree_and_fails_if_one_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["recompute", str(tmp_path / "x.csv"), "--raw", str(tmp_path / "raw")]
    keep(tmp_path, make("honest"))
    results.append(tmp_path / "x.csv", make("lost"))
    assert cli.main(command) == 0
    assert "2 rows: 1 agreeing, 0 differing, 1 not sampled" in capsys.readouterr().out
    better = dataclasses.replace(stated(TIMINGS["backward"]), speedup=50.0)
    keep(tmp_path, make("tampered", modes=make("").modes | {"backward": better}))
    assert cli.main(command) == 1
    lines = capsys.readouterr().out.splitlines()
    words = [line.split() for line in lines]
    assert words[0] == ["problem", "solution", "run", "outcome"]
    assert [line[1:2] + line[3:] for line in words[1:4]] == [
        ["honest", "agrees"],
        ["lost", "no", "samples"],
        ["tampered", "differs"],
    ]
    note = "level1/1_A / tampered: backward_speedup is 50, and the samples give 2."
    assert [line for line in lines if line.startswith(note)]


def test_a_missing_folder_or_file_is_one_line(tmp_path: Path) -> None:
    results.append(tmp_path / "x.csv", make("a"))
    with pytest.raises(RequestError, match="--raw"):
        recompute.compare(tmp_path / "x.csv", tmp_path / "raw")
    with pytest.raises(RequestError, match="cannot read results"):
        recompute.compare(tmp_path / "y.csv", tmp_path / "raw")  # the file is named first
