"""What this machine can do, and the command that mends what it cannot.

Covers: all that `run_eval.py --problem kl_div` needs here (`missing`), and what makes it do less
or measure worse (`warning`). CUDA tools are needed where a CUDA device will be used; elsewhere
their lack is a warning, for CUDA solutions are skipped. Compilers: doctor_tools.py; the
card: doctor_gpu.py.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from harness import ROOT, run
from harness.commands import doctor_gpu, doctor_tools
from harness.commands.findings import Finding, State, finding
from harness.config import Settings
from harness.errors import HarnessError, MachineError
from harness.judge import device
from harness.judge.context import COMPILER_BYTES
from harness.judge.device import Device
from harness.judge.process import isolation, toolchain
from harness.judge.process.sandbox import FAILURES
from harness.judge.process.toolchain import Toolchain
from harness.wording import counted

OLDEST_TORCH = (2, 6)
LITTLE_DISK_BYTES = 2 << 30  # a dozen built extensions, the compiler's temporaries
LEAST_DISK_BYTES = 200 << 20


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What is examined. `device` is None where none can be used, for the reason `fault`."""

    tools: Toolchain
    device: Device | None
    fault: str
    results: Path
    cache: Path
    temporary: Finding

    @property
    def can_try(self) -> bool:
        """Whether what writes temporary files can be tried: else it would get the blame."""
        return self.temporary.state is not State.MISSING

    @property
    def cuda(self) -> bool:
        return self.device is not None and self.device.type == "cuda"


def examine(setting: str = "auto", root: Path = ROOT) -> tuple[Finding, ...]:
    """Everything, for the device that `setting` names. Takes some seconds: it tries the tools."""
    chosen, fault = None, ""
    try:
        chosen = device.choose(setting)
    except MachineError as error:
        fault = str(error)
    machine = Machine(
        tools=toolchain.find(),
        device=chosen,
        fault=fault,
        results=root / "results",
        cache=root / ".cache",
        temporary=_temporary(),
    )
    found = [one for check in CHECKS for one in check(machine)]
    if machine.cuda:
        assert machine.device
        found += doctor_gpu.look(machine.device)
    return tuple(found)


def works(findings: tuple[Finding, ...]) -> bool:
    """Whether the main job would work."""
    return all(one.state is not State.MISSING for one in findings)


def _python(machine: Machine) -> Iterator[Finding]:
    yield finding("Python", State.OK, f"{platform.python_version()} at {sys.executable}")
    cuda = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    old = version < OLDEST_TORCH
    state = State.MISSING if old else State.OK
    remedy = "pip install --upgrade torch" if old else ""
    yield finding("torch", state, f"{torch.__version__}, {cuda}", remedy)


def _device(machine: Machine) -> Iterator[Finding]:
    if machine.device is None:
        yield finding(
            "device", State.MISSING, machine.fault, "do what it says, or choose another --device"
        )
    elif machine.cuda:
        memory = f"{machine.device.memory_bytes / 2**30:.0f} GiB"
        detail = f"{machine.device.name}, {memory}, architecture {machine.device.arch}"
        yield finding("device", State.OK, detail)
    else:
        detail = f"{machine.device.name}; no GPU can be used: CUDA solutions are skipped"
        remedy = "where there is a GPU: install its driver, and check with nvidia-smi"
        if torch.version.cuda is None and torch.version.hip is None:
            remedy = "where there is a GPU: pip install --force-reinstall torch"
        yield finding("device", State.WARNING, detail, remedy)


def _tools(machine: Machine) -> Iterator[Finding]:
    yield from doctor_tools.compiler(machine.tools)
    yield from doctor_tools.toolkit(machine.tools, cuda=machine.cuda, trial=machine.can_try)


def _room(machine: Machine) -> Iterator[Finding]:
    free = psutil.virtual_memory().available
    little = free < COMPILER_BYTES
    state = State.WARNING if little else State.OK
    remedy = "end other programs: a compiler takes about 1.5 GiB" if little else ""
    yield finding("memory", state, f"{free / 2**30:.1f} GiB free", remedy)
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    busy = load > cores / 2 and not machine.cuda
    state = State.WARNING if busy else State.OK
    remedy = "end other programs: times on a CPU would be theirs too" if busy else ""
    yield finding("CPU", state, f"{counted(cores, 'core')}, load {load:.1f}", remedy)


def _folders(machine: Machine) -> Iterator[Finding]:
    for name, folder in (("results", machine.results), ("build cache", machine.cache)):
        if reason := _unwritable(folder):
            remedy = f"chmod u+w {folder}" + (", or use --output" if name == "results" else "")
            yield finding(name, State.MISSING, f"{folder} cannot be written: {reason}", remedy)
        else:
            yield _room_in(folder, name)
    yield machine.temporary


def _temporary() -> Finding:
    """Where compilers and workers write what they need for a while."""
    name, remedy = "temporary files", "export TMPDIR=FOLDER, one that can be written and has room"
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        return finding(name, State.MISSING, error.strerror or str(error), remedy)
    asked = os.environ.get("TMPDIR")
    if asked and Path(asked).absolute() != folder:
        detail = f"{folder}, since TMPDIR, which is {asked}, is full or cannot be written"
        return finding(name, State.WARNING, detail, remedy)
    return _room_in(folder, name, f", or {remedy}")


def _room_in(folder: Path, name: str, otherwise: str = "") -> Finding:
    free = shutil.disk_usage(folder).free
    state = State.WARNING if free < LITTLE_DISK_BYTES else State.OK
    state = State.MISSING if free < LEAST_DISK_BYTES else state
    remedy = "" if state is State.OK else f"make room on the disk of {folder}{otherwise}"
    return finding(name, state, f"{folder}, {free / 2**30:.1f} GiB free", remedy)


def _unwritable(folder: Path) -> str | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _sandbox(machine: Machine) -> Iterator[Finding]:
    """Tried as a worker would use it."""
    if not machine.can_try:
        return
    problem = isolation.unusable()
    if problem is None:
        detail = "bubblewrap works: workers get namespaces of their own (--sandbox strict)"
        yield finding("sandbox", State.OK, detail)
        return
    remedy = "apt install bubblewrap"
    if shutil.which("bwrap"):
        remedy = "allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    detail = f"workers are processes of this user, without namespaces: {problem}"
    yield finding("sandbox", State.WARNING, detail, remedy)


def _worker(machine: Machine) -> Iterator[Finding]:
    """Start one and end it, as every evaluation does."""
    if not machine.can_try:
        return
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(device="cpu")
        place = Path(folder)
        try:
            context = run.make_context(
                run.Request(settings=settings, results_dir=place, cache_dir=place)
            )
            with context.worker("doctor", salt="doctor"):
                yield finding("worker", State.OK, "a worker process starts")
        except (HarnessError, OSError, *FAILURES) as error:
            yield finding(
                "worker", State.MISSING, f"no worker process starts: {error}", "see above"
            )


#: In the order in which they are shown.
CHECKS: tuple[Callable[[Machine], Iterator[Finding]], ...] = (
    _python,
    _device,
    _tools,
    _room,
    _folders,
    _sandbox,
    _worker,
)
