"""The records: what is derived from samples, and what a row publishes."""

from __future__ import annotations

import dataclasses
import math

import pytest

from harness import records
from harness.records import (
    COLUMNS,
    CREDITED_FIELDS,
    MODE_FIELDS,
    MODES,
    Block,
    Environment,
    Epoch,
    Memory,
    ModeResult,
    Phase,
    Row,
    Status,
    Timing,
    Verdict,
)

MEASURED = ModeResult(**dict.fromkeys(MODE_FIELDS, 2))  # type: ignore[arg-type]


def row(status: Status) -> Row:
    return Row(
        run_id="r",
        time="t",
        problem="p",
        problem_digest="pd",
        solution="s",
        solution_digest="sd",
        size="full",
        dtype="float32",
        settings_digest="c",
        harness_version="0",
        schema_version=1,
        environment=Environment(device_name="d", torch="2", python="3", host="h", cpu_threads=1),
        verdict=Verdict(status=status, phase=Phase.DONE, message="m"),
        modes=dict.fromkeys(MODES, MEASURED),
        memory=Memory(inference_peak_mib=1.0, training_peak_mib=2.0),
        reference_memory=Memory(inference_peak_mib=3.0, training_peak_mib=4.0),
        flags=("a", "b"),
    )


def block(reference: tuple[float, float], solution: tuple[float, float]) -> Block:
    return Block(reference_ms=reference, solution_ms=solution)


def test_columns_are_complete_and_unique() -> None:
    assert len(set(COLUMNS)) == len(COLUMNS)
    assert tuple(row(Status.PASS).flat()) == COLUMNS
    fields = {f.name for f in dataclasses.fields(Row)}
    parts = {"environment", "verdict", "modes", "memory", "reference_memory"}
    assert fields - parts <= set(COLUMNS)
    assert {f.name for f in dataclasses.fields(Environment)} <= set(COLUMNS)
    assert {f"{mode}_{field}" for mode in MODES for field in MODE_FIELDS} <= set(COLUMNS)


def test_what_the_issue_names_is_a_column() -> None:
    assert {"problem", "solution", "size", "dtype", "device_name"} <= set(COLUMNS)
    assert {"status", "phase", "message", "log", "flags", "build_s", "total_s"} <= set(COLUMNS)
    assert {"inference_peak_mib", "training_peak_mib", "error_ratio", "own_share"} <= set(COLUMNS)
    fields = ("reference_ms", "solution_ms", "speedup", "low", "high", "compile_speedup")
    fields += ("limit_fraction", "reference_limit_fraction")
    modes = ("forward", "forward_train", "backward", "forward_backward")
    named = {f"{mode}_{field}" for mode in modes for field in fields}
    assert named <= set(COLUMNS)


def test_a_pass_publishes_every_speedup() -> None:
    flat = row(Status.PASS).flat()
    assert all(flat[f"{mode}_{field}"] == 2 for mode in MODES for field in MODE_FIELDS)
    assert flat["flags"] == "a b"
    assert flat["reference_training_peak_mib"] == 4.0


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PASS])
def test_a_speedup_that_is_not_credited_is_left_out_and_the_times_are_kept(status: Status) -> None:
    flat = row(status).flat()
    for mode in MODES:
        credited = status is Status.FORWARD_ONLY and mode == "forward"
        for field in MODE_FIELDS:
            kept = credited or field not in CREDITED_FIELDS
            assert flat[f"{mode}_{field}"] == (2 if kept else None), (mode, field)


def test_every_ratio_to_a_solution_is_among_the_credited_fields() -> None:
    assert {f for f in MODE_FIELDS if "speedup" in f} - {"compiled_speedup"} <= set(CREDITED_FIELDS)
    assert {"low", "high", "compile_low", "compile_high"} <= set(CREDITED_FIELDS)


def test_only_pass_skipped_and_built_let_a_run_end_well() -> None:
    fine = {status for status in Status if status.fine}
    assert fine == {Status.PASS, Status.SKIPPED, Status.BUILT}


def test_a_mode_that_was_not_timed_is_missing_everywhere() -> None:
    flat = dataclasses.replace(row(Status.PASS), modes={}, memory=None).flat()
    assert all(flat[f"{mode}_{field}"] is None for mode in MODES for field in MODE_FIELDS)
    assert flat["inference_peak_mib"] is None


def test_a_block_is_the_mean_of_its_two_log_ratios() -> None:
    assert block((4.0, 9.0), (2.0, 2.0)).log_ratio == pytest.approx(math.log(3.0))


def test_a_timing_goes_by_its_fastest_units_only_where_it_says_so() -> None:
    epochs = (Epoch(blocks=(block((4.0, 9.0), (2.0, 2.0)),)),) * 2
    mean = Timing(mode="forward", calls=1, epochs=epochs)
    least = dataclasses.replace(mean, minima=True)
    assert mean.interval.ratio == pytest.approx(3.0)
    assert least.interval.ratio == pytest.approx(2.0)
    assert (mean.reference_ms, least.reference_ms) == (6.5, 4.0)


def test_what_others_add_to_most_units_does_not_show_in_the_fastest() -> None:
    quiet, loud = block((4.0, 4.2), (2.0, 2.1)), block((60.0, 9.0), (2.5, 70.0))
    clean = Timing(mode="forward", calls=1, epochs=(Epoch(blocks=(quiet,)),) * 3, minima=True)
    busy = dataclasses.replace(clean, epochs=(Epoch(blocks=(quiet, loud, loud, loud)),) * 3)
    assert busy.interval.ratio == pytest.approx(clean.interval.ratio, rel=0.01)
    assert busy.reference_ms == pytest.approx(clean.reference_ms, rel=0.03)
    spoilt = dataclasses.replace(busy, minima=False)
    assert spoilt.interval.ratio != pytest.approx(clean.interval.ratio, rel=0.1)


def test_disturbed_blocks_are_counted_and_enter_nothing() -> None:
    good, bad = block((4.0, 4.0), (2.0, 2.0)), block((400.0, 400.0), (1.0, 1.0))
    epochs = (Epoch(blocks=(good,), disturbed=(bad, bad)), Epoch(blocks=(good,), disturbed=(bad,)))
    timing = Timing(mode="forward", calls=1, epochs=epochs)
    assert timing.dropped == 3
    assert timing.interval.ratio == pytest.approx(2.0)
    assert (timing.reference_ms, timing.solution_ms) == (4.0, 2.0)


def test_a_wall_speedup_needs_both_sides() -> None:
    timing = Timing(mode="forward", calls=1, epochs=(), reference_wall_ms=3.0)
    assert timing.wall_speedup is None
    assert dataclasses.replace(timing, solution_wall_ms=2.0).wall_speedup == 1.5


def test_records_are_frozen_and_take_names_only() -> None:
    for record in (Row, Verdict, Timing, Epoch, Block, Memory, Environment, ModeResult):
        parameters = record.__dataclass_params__  # type: ignore[attr-defined]
        assert parameters.frozen, record
        assert all(f.kw_only for f in dataclasses.fields(record)), record
    assert records.Problem.__dataclass_params__.frozen  # type: ignore[attr-defined]
