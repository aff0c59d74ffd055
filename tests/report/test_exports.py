"""Rows in KernelBench's form, read as its own scripts read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from examples import row

from harness import samples
from harness.errors import RequestError
from harness.records import Block, Epoch, Timing
from harness.report import exports


def export(tmp_path: Path, rows: list[Any]) -> tuple[exports.Exported, dict[str, Any]]:
    done = exports.kernelbench(rows, tmp_path / "out", [tmp_path / "none", tmp_path / "raw"])
    found = {str(p.relative_to(tmp_path / "out")): json.loads(p.read_text()) for p in done.files}
    return done, found


def test_results_are_by_number_with_their_samples(tmp_path: Path) -> None:
    rows = [
        row("level1/10_J", speedup=4.0, solution="sample_1"),
        row("level1/2_B", "not_exercised", forward_solution_ms=1.0, message="PyTorch did"),
        row("level1/2_B", "compile_error", phase="build", solution="sample_3"),
        row("level1/2_B", "contract_error", phase="find", solution="mine"),
        row("level1/2_B", "contract_error", phase="load", solution="other"),
        row("level2/1_A", "forward_only", speedup=0.5),
    ]
    _, found = export(tmp_path, rows)
    level1 = found["level1/eval_results.json"]
    assert list(level1) == ["2", "10"]
    (entry,) = level1["10"]
    assert set(entry) == {
        *("sample_id", "compiled", "correctness", "metadata", "runtime", "runtime_stats"),
    }
    assert (entry["sample_id"], entry["correctness"], entry["runtime"]) == (1, True, 1.0)
    assert entry["metadata"]["speedup"] == 4.0
    states = [(e["sample_id"], e["compiled"], e["correctness"]) for e in level1["2"]]
    assert states == [(0, True, False), (3, False, False), (1, False, False), (2, True, False)]
    assert {e["runtime"] for e in level1["2"]} == {-1.0}
    assert level1["2"][0]["metadata"]["verdict"] == "not_exercised"
    assert found["level2/eval_results.json"]["1"][0]["correctness"] is True


@pytest.mark.parametrize(
    ("status", "phase", "compiled"),
    [
        ("contract_error", "find", False),
        ("compile_error", "build", False),
        ("load_error", "build", False),
        ("timeout", "build", False),  # a loop at import, or a compiler without end
        ("crash", "build", False),
        ("out_of_memory", "build", False),
        ("contract_error", "load", True),
        ("timeout", "forward", True),
        ("rejected", "audit", True),
        ("pass", "done", True),
    ],
)
def test_compiled_is_what_got_past_its_build(
    tmp_path: Path, status: str, phase: str, compiled: bool
) -> None:
    _, found = export(tmp_path, [row("level1/1_A", status, phase=phase)])
    assert found["level1/eval_results.json"]["1"][0]["compiled"] is compiled


@pytest.mark.parametrize(
    ("solutions", "numbers"),
    [
        (["cuda", "sample_0"], {"cuda": [1], "sample_0": [0]}),
        (["a", "b", "sample_1", "c"], {"a": [0], "b": [2], "c": [3], "sample_1": [1]}),
        (["sample_4", "sample_4"], {"sample_4": [4, 0]}),  # of two problems with one number
    ],
)
def test_no_two_samples_of_a_problem_have_one_number(
    tmp_path: Path, solutions: list[str], numbers: dict[str, list[int]]
) -> None:
    """KernelBench's analysis takes sample 0, and asserts that there is one at most."""
    _, found = export(tmp_path, [row("level1/1_A", speedup=2.0, solution=s) for s in solutions])
    told: dict[str, list[int]] = {}
    for entry in found["level1/eval_results.json"]["1"]:
        told.setdefault(entry["metadata"]["solution"], []).append(entry["sample_id"])
    assert told == numbers


def test_baselines_are_by_level_and_file(tmp_path: Path) -> None:
    _, found = export(tmp_path, [row("level1/10_J", speedup=4.0), row("level2/1_A", speedup=1.0)])
    eager = found["timing/GPU/baseline_time_torch.json"]
    assert eager["level1"]["10_J.py"]["mean"] == 4.0
    assert eager["level2"]["1_A.py"]["hardware"] == "GPU"
    compiled = found["timing/GPU/baseline_time_torch_compile_inductor_default.json"]
    assert compiled["level1"]["10_J.py"]["mean"] == 2.0  # torch.compile is twice as fast


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (None, "inductor_default"),
        ("default", "inductor_default"),
        ("trials=3 compile_baseline=max-autotune epochs_min=2", "inductor_max-autotune"),
        ("trials=10 compile_baseline=default,max-autotune", "best"),
    ],
)
def test_a_compiled_baseline_is_named_by_its_mode(
    tmp_path: Path, settings: str | None, name: str
) -> None:
    """The row knows the best of several modes: that is nobody's `default`."""
    _, found = export(tmp_path, [row("level1/1_A", speedup=4.0, settings=settings)])
    assert [k for k in found if "compile" in k] == [
        f"timing/GPU/baseline_time_torch_compile_{name}.json"
    ]


def test_the_spread_is_that_of_the_raw_samples(tmp_path: Path) -> None:
    block = Block(reference_ms=(4.0, 4.2), solution_ms=(1.0, 1.2))
    timing = Timing(mode="forward", calls=1, epochs=(Epoch(blocks=(block, block)),))
    samples.save(
        tmp_path / "raw", samples.name_of("run", "level1/1_A", "sample_0"), {"forward": timing}
    )
    _, found = export(tmp_path, [row("level1/1_A", speedup=4.0, run_id="run")])
    stats = found["level1/eval_results.json"]["1"][0]["runtime_stats"]
    assert (stats["min"], stats["max"], stats["num_trials"]) == (1.0, 1.2, 4)
    reference = found["timing/GPU/baseline_time_torch.json"]["level1"]["1_A.py"]
    assert (reference["min"], reference["max"]) == (4.0, 4.2)


def test_what_has_no_place_there_is_told(tmp_path: Path) -> None:
    rows = [
        row("kl_div", speedup=2.0),
        row("level1/1_A", "skipped"),
        row("level1/1_A", speedup=1.0, solution="self_check"),
    ]
    done, _ = export(tmp_path, [*rows, row("level1/1_A", speedup=2.0)])
    assert done.left_out == {
        "of a problem without level and number": 1,
        "skipped": 1,
        "self_check": 1,
    }
    with pytest.raises(RequestError, match="nothing to export: 1 of a problem without"):
        export(tmp_path, rows)


def test_two_devices_are_refused(tmp_path: Path) -> None:
    rows = [row("level1/1_A", speedup=2.0), row("level1/1_A", speedup=2.0, device_name="other")]
    with pytest.raises(RequestError, match="of one device"):
        export(tmp_path, rows)


def test_a_rejected_sample_does_not_set_the_reference_time_of_the_others(tmp_path: Path) -> None:
    """It may have slowed the reference down, and every other sample would gain."""
    slowed = row("level1/1_A", "rejected", forward_reference_ms=50.0, forward_solution_ms=1.0)
    honest = row("level1/1_A", speedup=2.0, solution="sample_1")
    done, found = export(tmp_path, [slowed, honest])
    assert found["timing/GPU/baseline_time_torch.json"]["level1"]["1_A.py"]["mean"] == 2.0
    assert done.untimed == []


def test_a_problem_without_a_trusted_reference_time_is_named_and_a_self_check_gives_it(
    tmp_path: Path,
) -> None:
    """KernelBench's analysis leaves it out of the denominator of fast_p."""
    rows = [row("level1/1_A", speedup=2.0), row("level1/2_B", "compile_error", phase="build")]
    rows += [row("level1/3_C", "not_exercised", forward_reference_ms=3.0, forward_solution_ms=1.0)]
    assert export(tmp_path, rows)[0].untimed == ["level1/2_B", "level1/3_C"]
    checks = [
        row(name, speedup=1.0, forward_reference_ms=time, solution="self_check")
        for name, time in (("level1/1_A", 2.1), ("level1/2_B", 5.0))
    ]
    done, found = export(tmp_path, [*rows, *checks])
    assert done.untimed == ["level1/3_C"]
    times = found["timing/GPU/baseline_time_torch.json"]["level1"]
    assert {name: one["mean"] for name, one in times.items()} == {"1_A.py": 2.1, "2_B.py": 5.0}


def test_the_reference_time_is_of_the_size_of_the_samples(tmp_path: Path) -> None:
    check = row("level1/1_A", speedup=1.0, size="full", solution="self_check")
    sample = row("level1/1_A", speedup=2.0, size="N=64")
    _, found = export(tmp_path, [check, sample])
    assert found["timing/GPU/baseline_time_torch.json"]["level1"]["1_A.py"]["mean"] == 2.0
    other = row("level1/1_A", speedup=2.0, size="full", solution="sample_1")
    with pytest.raises(RequestError, match=r"one size of level1/1_A: these are N=64, full"):
        export(tmp_path, [sample, other])
