"""The story of a row: what is known is told, what is not is not made up."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
from examples import make, mode, write
from rich.console import Console

from harness import cli, meanings
from harness.commands import explain
from harness.errors import RequestError
from harness.judge.profiling import Kernel, Profile
from harness.records import MODES, Status
from harness.report import profile_tables
from harness.report.metrics import DOUBTS


def shown(renderable: object, width: int = 300) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def told(folder: Path, *rows: object, solution: str = "cuda") -> tuple[dict[str, object], str]:
    paths = write(folder, {"h100": list(rows)})  # type: ignore[list-item]
    row = explain.find(paths, "kl_div", solution)
    story = explain.story(row, [folder])
    json.dumps(story, allow_nan=False)
    return story, shown(explain.screen(story))


def test_a_pass_is_told_with_times_limit_and_what_bounds_it(tmp_path: Path) -> None:
    story, text = told(tmp_path, make(modes={"forward": mode(4.0, limit=0.95)}))
    figures = story["modes"]["forward"]  # type: ignore[index]
    assert figures["limit_ms"] == pytest.approx(0.95 * 1.5)
    assert figures["bytes_per_s"] == pytest.approx((2 << 30) / 1.5e-3)
    assert "forward: by memory bandwidth, at 95% of what this device can do" in text
    assert "every mode is near its limit" in text
    assert "2.00 GiB at least" in text


def test_the_mode_furthest_from_its_limit_is_named(tmp_path: Path) -> None:
    modes = {"forward": mode(4.0, limit=0.95), "backward": mode(2.0, limit=0.3)}
    _, text = told(tmp_path, make(modes=modes))
    assert "backward is furthest from its limit" in text
    assert "every mode is near" not in text


def test_no_speedup_is_told_where_none_is_credited(tmp_path: Path) -> None:
    row = make(status=Status.REJECTED, modes=dict.fromkeys(MODES, mode(50.0)), message="too fast")
    story, text = told(tmp_path, row)
    assert story["modes"]["forward"]["speedup"] is None  # type: ignore[index]
    assert "no speedup is credited" in text
    assert "50" not in text.replace("50%", "")


def test_the_compilers_first_lines_are_told(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "r1" / "x.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "Error building extension 'm': [1/2] nvcc -O3\nx.cu(7): error: expected a \";\"\nmuch\n"
        'harness.worker.faults.CompileFault: x.cu(7): error: expected a ";"\n'
        "ERROR:2026-01-02 03:04:05 2:2 DeviceProperties.cpp:56] gpuGetDeviceCount failed\n"
    )
    row = make(status=Status.COMPILE_ERROR, log="/else/logs/r1/x.log", message="x.cu(7): error")
    story, text = told(tmp_path, row)
    assert story["log_lines"] == ['x.cu(7): error: expected a ";"']
    assert 'x.cu(7): error: expected a ";"' in text
    assert "mend the first diagnostic" in text


def test_where_results_differ_is_told_apart_from_other_messages(tmp_path: Path) -> None:
    wrong = make(status=Status.WRONG_OUTPUT, message="output[3] is 1.5, expected 2.5")
    crash = make("boom", status=Status.CRASH, message="signal 11")
    assert told(tmp_path, wrong, crash)[0]["differs"] == "output[3] is 1.5, expected 2.5"
    assert told(tmp_path, wrong, crash, solution="boom")[0]["differs"] is None


def test_flags_are_told_with_their_meaning_and_host_bound_is_what_bounds(tmp_path: Path) -> None:
    row = make(flags=("forward:launch_bound", "something:new"))
    story, text = told(tmp_path, row)
    assert story["flags"] == {
        "forward:launch_bound": meanings.FLAGS["launch_bound"],
        "something:new": "",
    }
    assert "forward: by the host" in text


def test_every_verdict_has_a_meaning_and_all_but_pass_an_advice() -> None:
    assert set(meanings.MEANING) == set(Status)
    assert [s for s, (_, advice) in meanings.MEANING.items() if not advice] == [Status.PASS]
    assert meanings.meaning(make().flat() | {"status": "of a later version"}) == ("", "")


def test_a_quick_look_is_no_missing_backward(tmp_path: Path) -> None:
    quick, whole = make("quick", status=Status.FORWARD_ONLY, flags=("quick",)), Status.FORWARD_ONLY
    story, _ = told(tmp_path, quick, solution="quick")
    assert "leaves the backward out" in story["means"]
    assert story["next"][0].startswith("evaluate it without --quick")
    other, _ = told(tmp_path, make(status=whole))
    assert "there is no backward" in other["means"]
    assert "autograd.Function" in other["next"][0]


def test_every_flag_that_puts_a_credit_in_doubt_has_a_meaning() -> None:
    assert set(meanings.FLAGS) >= DOUBTS


def test_the_newest_row_is_told_and_a_path_names_a_solution_too(tmp_path: Path) -> None:
    old = make(speedup=1.5, device="NVIDIA A100", time="2025-01-01T00:00:00Z")
    paths = write(tmp_path, {"a": [old], "b": [make()]})
    row = explain.find(paths, "kl_div", "solutions/kl_div/cuda.py")
    assert row["device_name"] == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    "problem", ["level1/94_MSELoss", "94_MSELoss", "KernelBench/level1/94_MSELoss.py"]
)
@pytest.mark.parametrize("solution", ["sample_0", "runs/level_1_problem_94_sample_0_kernel.py"])
def test_a_suite_s_problems_and_samples_are_found_as_an_evaluation_finds_them(
    tmp_path: Path, problem: str, solution: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        make("sample_0", problem=name, size="N=8") for name in ("level1/94_MSELoss", "level2/1_A")
    ]
    (path,) = write(tmp_path, {"run": rows})
    call = ["--problem", problem, "--solution", solution, "--size", "fit", str(path)]
    assert cli.main(["explain", *call]) == 0
    assert "level1/94_MSELoss / sample_0, size N=8" in capsys.readouterr().out


def test_a_name_of_problems_in_several_levels_is_refused(tmp_path: Path) -> None:
    rows = [make(problem=f"level{level}/1_A") for level in (1, 2)]
    paths = write(tmp_path, {"run": rows})
    with pytest.raises(RequestError, match="called 1_A: name one of level1/1_A, level2/1_A"):
        explain.find(paths, "1_A", "cuda")


def test_advice_is_for_the_device(tmp_path: Path) -> None:
    row = make(modes={"forward": mode(4.0, limit=0.3)})
    card = dataclasses.replace(row.environment, cuda="13.0")
    _, gpu = told(tmp_path / "gpu", dataclasses.replace(row, environment=card))
    _, cpu = told(tmp_path / "cpu", row)
    assert "16 bytes a thread" in gpu
    assert "on all cores" in cpu
    assert "thread" not in cpu


def test_what_is_at_its_limit_is_bound_by_that_however_slowly_it_is_launched(
    tmp_path: Path,
) -> None:
    row = make(modes={"forward": mode(4.0, limit=0.99)}, flags=("forward:launch_bound",))
    _, text = told(tmp_path, row)
    assert "forward: by memory bandwidth, at 99%" in text
    assert "by the host" not in text


def test_what_was_never_evaluated_is_one_line_that_says_how(tmp_path: Path) -> None:
    paths = write(tmp_path, {"h100": [make()]})
    with pytest.raises(
        RequestError,
        match=r"has cuda \(full, float32\); evaluate it first: python run_eval\.py --problem",
    ):
        explain.find(paths, "kl_div", "nobody")
    with pytest.raises(RequestError, match="evaluate it first"):
        explain.find([], "kl_div", "cuda")


def test_the_command_tells_people_and_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = write(tmp_path, {"h100": [make(message="\x1b[31m[bold]markup[/bold]")]})
    call = ["explain", "--problem", "kl_div", "--solution", "cuda", str(path)]
    assert cli.main(call) == 0
    out = capsys.readouterr().out
    assert "[bold]markup[/bold]" in out
    assert "\x1b" not in out
    assert cli.main([*call, "--json", "--size", "auto"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "pass"


# --- the profile's table ------------------------------------------------------------------------


def kernel(name: str, time_us: float, share: float) -> Kernel:
    return Kernel(name=name, calls=1, time_us=time_us, share=share, registers=40, shared_bytes=2048)


def test_a_profile_shows_both_sides_and_sums_up_the_rest() -> None:
    small = tuple(kernel(f"small{i}", 0.01, 0.0001) for i in range(10))
    found = Profile(
        problem="p",
        solution="mine",
        device_name="d",
        size="full",
        dtype="float32",
        mode="forward",
        reference=(kernel("void (anonymous namespace)::f<float>(float*)", 99.0, 0.999), *small),
        candidate=(),
        fault="it crashed",
    )
    text = shown(profile_tables.screen(found))
    assert "f<float>(float*)" in text
    assert "anonymous" not in text
    assert "40" in text
    assert "2 KiB" in text
    assert "10 more" in text
    assert "mine: it crashed" in text
    assert "occupancy" not in text


def test_figures_of_nsight_compute_are_shown_where_there_are_any() -> None:
    known = dataclasses.replace(kernel("f", 1.0, 1.0), memory_share=0.91, occupancy=0.5)
    names = ("problem", "solution", "device_name", "size", "dtype", "mode")
    found = Profile(
        **dict.fromkeys(names, "x"), reference=(known,), candidate=(), nsight="no permission"
    )
    text = shown(profile_tables.screen(found))
    assert "occupancy" in text
    assert "91%" in text
    assert "no figures of Nsight Compute: no permission" in text
