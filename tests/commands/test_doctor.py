"""What is missing is named with its remedy, and what is there is not called missing."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import cli
from harness.commands import doctor, doctor_gpu, doctor_tools
from harness.commands.findings import Finding, State
from harness.errors import MachineError
from harness.judge import device
from harness.judge.device import Device
from harness.judge.process import isolation, toolchain
from harness.judge.process.toolchain import Toolchain

CARD = Device(
    type="cuda", index=0, name="H100", visible="0", arch="9.0a", memory_bytes=80 << 30, uuid="u"
)


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str, str], str]:
    """An executable that is a shell script."""

    def make(name: str, script: str) -> str:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return make


def tools(**given: str | None) -> Toolchain:
    return Toolchain(**({"compiler": None, "ninja": None, "nvcc": None, "cuda_home": None} | given))


def by_name(findings: Any) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


# --- the machine that runs this -------------------------------------------------------------------


def test_this_machine_works_and_a_worker_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "CHECKS", [c for c in doctor.CHECKS if c is not doctor._tools])
    found = doctor.examine("cpu", tmp_path)
    assert doctor.works(found)
    names = by_name(found)
    assert names["worker"].state is State.OK
    assert names["device"].state is State.WARNING  # CUDA solutions will be skipped, and why
    assert "skipped" in names["device"].detail
    assert names["results"].state in (State.OK, State.WARNING)
    assert all(one.remedy for one in found if one.state is not State.OK)


@pytest.mark.parametrize(("state", "status"), [("warning", 0), ("missing", 3)])
@pytest.mark.parametrize("terminal", [False, True])
def test_exit_status_and_each_finding_and_remedy_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: str,
    status: int,
    terminal: bool,
) -> None:
    """On a terminal too: a path or a command that is broken into lines cannot be copied."""
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "60")
    remedy, detail = "pip install " + "x" * 200, "[red]d at /" + "long/" * 40
    one = Finding(name="thing", state=State(state), detail=detail, remedy=remedy)
    monkeypatch.setattr(doctor, "examine", lambda setting: (one,))
    assert cli.main(["doctor"]) == status
    lines = capsys.readouterr().out.splitlines()
    assert f"thing: {remedy}" in lines
    assert any(line.startswith("thing") and line.endswith(detail) for line in lines)


def test_a_device_that_is_not_there_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def choose(setting: str) -> Device:
        raise MachineError("no CUDA device")

    monkeypatch.setattr(device, "choose", choose)
    monkeypatch.setattr(doctor, "CHECKS", (doctor._device,))
    found = doctor.examine("cuda", tmp_path)
    assert not doctor.works(found)
    assert found[0].detail == "no CUDA device"


def test_a_folder_that_cannot_be_written_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "results").write_text("a file stands in the way")
    monkeypatch.setattr(doctor, "CHECKS", (doctor._folders,))
    found = by_name(doctor.examine("cpu", tmp_path))
    assert found["results"].state is State.MISSING
    assert found["build cache"].state is not State.MISSING


def _no_folder() -> str:
    raise FileNotFoundError(2, "No usable temporary directory found")


@pytest.mark.parametrize("state", [State.OK, State.WARNING, State.MISSING])
def test_where_temporary_files_have_no_place_nothing_else_gets_the_blame(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tool: Callable[[str, str], str],
    state: State,
) -> None:
    """The real nvcc and compilers fail where they cannot write them, and so does a worker."""
    needs = 'touch "$TMPDIR/x$$" || { echo "error: no file in $TMPDIR" >&2; exit 1; }'
    found_tools = tools(nvcc=tool("nvcc", needs), compiler=tool("c++", needs), cuda_home="/c")
    wanted = torch.version.cuda or "13.0"
    monkeypatch.setattr(torch.version, "cuda", wanted)
    found_tools = dataclasses.replace(found_tools, cuda_version=wanted)
    monkeypatch.setattr(toolchain, "find", lambda: found_tools)
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("bin" if state is State.OK else "missing")))
    monkeypatch.setattr(tempfile, "tempdir", None)
    if state is State.MISSING:
        monkeypatch.setattr(tempfile, "gettempdir", _no_folder)
    found = by_name(doctor.examine("cpu", tmp_path))
    assert found["temporary files"].state is state
    assert ("TMPDIR" in found["temporary files"].remedy) is (state is not State.OK)
    tried = {"nvcc builds", "sandbox", "worker"} & found.keys()
    assert len(tried) == (0 if state is State.MISSING else 3)
    assert all(found[name].state is State.OK for name in tried - {"sandbox"})


def test_little_room_for_temporary_files_is_said_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "LEAST_DISK_BYTES", 1 << 60)
    monkeypatch.setattr(doctor, "CHECKS", (doctor._folders, doctor._sandbox, doctor._worker))
    found = by_name(doctor.examine("cpu", tmp_path))
    assert list(found) == ["results", "build cache", "temporary files"]
    assert "export TMPDIR" in found["temporary files"].remedy


def test_an_evaluation_without_temporary_files_is_refused_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", _no_folder)
    assert cli.main(["--problem", "mse", "--device", "cpu"]) == MachineError.exit_status
    assert "set TMPDIR to a folder that can be written" in capsys.readouterr().err


@pytest.fixture
def untried() -> Iterator[None]:
    """What is known about bubblewrap here is forgotten, before and after."""
    isolation.unusable.cache_clear()
    yield
    isolation.unusable.cache_clear()


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize(
    ("script", "state"),
    [("exit 0", State.OK), ("echo 'No permissions' >&2; exit 1", State.WARNING)],
)
def test_bubblewrap_is_tried(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tool: Callable[[str, str], str],
    script: str,
    state: State,
) -> None:
    monkeypatch.setenv("PATH", str(Path(tool("bwrap", script)).parent))
    monkeypatch.setattr(doctor, "CHECKS", (doctor._sandbox,))
    (found,) = doctor.examine("cpu", tmp_path)
    assert found.state is state
    assert state is State.OK or "No permissions" in found.detail


# --- tools ----------------------------------------------------------------------------------------


def test_compiler_and_ninja(tool: Callable[[str, str], str]) -> None:
    lacking = by_name(doctor_tools.compiler(tools()))
    assert {lacking[name].state for name in ("C++ compiler", "ninja")} == {State.MISSING}
    assert lacking["ninja"].remedy == "pip install ninja"
    there = by_name(
        doctor_tools.compiler(tools(compiler=tool("g++", "echo g++ 12"), ninja=tool("n", "echo 1")))
    )
    assert there["C++ compiler"].state is there["ninja"].state is State.OK
    assert there["C++ compiler"].detail.startswith("g++ 12")


@pytest.mark.parametrize(("cuda", "lack"), [(True, State.MISSING), (False, State.WARNING)])
def test_nvcc_is_needed_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tool: Callable[[str, str], str], cuda: bool, lack: State
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    (absent,) = doctor_tools.toolkit(tools(), cuda=cuda)
    assert absent.state is lack
    assert '"cuda-toolkit[nvcc,cccl]==13.0.*"' in absent.remedy
    other = tools(nvcc="nvcc", cuda_home="/opt/cuda", cuda_version="12.8")
    (mismatch,) = doctor_tools.toolkit(other, cuda=cuda)
    assert mismatch.state is lack
    assert "12.8" in mismatch.detail
    assert "13.0" in mismatch.detail
    same = tools(nvcc="nvcc", cuda_home="/opt/cuda", cuda_version="13.2")
    (match,) = doctor_tools.toolkit(same, cuda=cuda)  # another minor version is no trouble
    assert match.state is State.OK


def test_pip_has_no_nvcc_for_cuda_12() -> None:
    assert "pip install" not in doctor_tools.toolkit_remedy("12.8")
    assert "12.8" in doctor_tools.toolkit_remedy("12.8")


def test_a_torch_without_cuda_needs_no_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    (on_cpu,) = doctor_tools.toolkit(tools(), cuda=False)
    assert on_cpu.state is State.OK


@pytest.mark.parametrize(
    ("nvcc", "linker", "detail", "remedy"),
    [
        (
            'echo "host_config.h(1): error: unsupported GNU version!" >&2; exit 1',
            "",
            "unsupported GNU version",
            "found first on PATH",
        ),
        ("", 'echo "ld: cannot find -lcudart" >&2; exit 1', "cannot find -lcudart", "ln -s"),
        ("", "", "compiles and links", ""),
    ],
)
def test_nvcc_is_tried_with_the_host_compiler_and_the_linker(
    monkeypatch: pytest.MonkeyPatch,
    tool: Callable[[str, str], str],
    nvcc: str,
    linker: str,
    detail: str,
    remedy: str,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    made = tools(
        nvcc=tool("nvcc", f"{nvcc}\nexit 0"),
        cuda_version="13.0",
        compiler=tool("g++", linker),
        cuda_home="/opt/cuda",
    )
    found = by_name(doctor_tools.toolkit(made, cuda=True))["nvcc builds"]
    assert detail in found.detail
    assert remedy in found.remedy
    assert (found.state is State.OK) is (not remedy)


@pytest.mark.skipif(toolchain.find().nvcc is None, reason="no nvcc here")
def test_the_nvcc_of_this_machine_passes_its_trial() -> None:
    assert doctor_tools._nvcc_trial(toolchain.find(), State.MISSING).state is State.OK


def test_a_tool_that_cannot_run_is_no_crash(tmp_path: Path) -> None:
    assert doctor_tools.attempt([str(tmp_path / "none")]).returncode == 127


# --- the card, by a stand-in for NVML -------------------------------------------------------------


class FakeError(Exception):
    pass


def fake_nvml(**changes: Any) -> types.ModuleType:
    module = types.ModuleType("pynvml")
    facts: dict[str, Any] = {
        "NVMLError": FakeError,
        "NVML_CLOCK_SM": 1,
        "nvmlClocksThrottleReasonHwSlowdown": 8,
        "nvmlClocksThrottleReasonHwThermalSlowdown": 64,
        "nvmlClocksThrottleReasonSwThermalSlowdown": 32,
        "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": 128,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlDeviceGetClockInfo": lambda handle, kind: 345,
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 1980,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 1,
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [],
    }
    vars(module).update(facts | changes)
    return module


def failing(*_: Any) -> None:
    raise FakeError("not supported")


def look(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> dict[str, Finding]:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(**changes))
    return by_name(doctor_gpu.look(CARD))


def test_an_idle_card_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch)
    assert {one.state for one in found.values()} == {State.OK}
    assert found["driver"].detail == "580.1"
    assert found["clocks"].detail == "SM at 345 of 1980 MHz"


def test_throttling_and_neighbours_are_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    neighbours = [types.SimpleNamespace(pid=pid) for pid in range(1, 12)]
    found = look(
        monkeypatch,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 64,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: neighbours,
    )
    assert found["clocks"].state is found["other processes"].state is State.WARNING
    assert "0x40" in found["clocks"].detail
    assert found["other processes"].detail.startswith("11 on the card: 1, 2")


def test_nvml_is_optional_and_so_is_each_of_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(monkeypatch, nvmlInit=failing)["NVML"].state is State.WARNING
    assert look(monkeypatch, nvmlDeviceGetHandleByUUID=failing)["NVML"].state is State.WARNING
    partly = look(monkeypatch, nvmlDeviceGetClockInfo=failing)
    assert partly["clocks"].state is State.OK
    assert "not supported" in partly["clocks"].detail
    assert partly["driver"].detail == "580.1"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert by_name(doctor_gpu.look(CARD))["NVML"].remedy == "pip install nvidia-ml-py"
