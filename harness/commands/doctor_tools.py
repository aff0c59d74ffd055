"""Whether compilers, ninja and the CUDA toolkit are there, fit torch, and work: each is tried.

Does not cover whether the code that they make runs here.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from harness.commands.findings import Finding, State, finding
from harness.judge.process.toolchain import Toolchain

TRIAL_S = 120  # that a trial of a compiler may take
CUDA_TRIAL = "__global__ void k(float* x) { *x = 1; }\nvoid f(float* x) { k<<<1, 1>>>(x); }\n"
#: PyPI has an nvcc for CUDA 13 (not for 12: nvidia-cuda-nvcc-cu12 has no bin/nvcc). Its wheels
#: lack the two names that torch's linker line asks for. Tried: compiles, links, builds mse/cuda.
PIP_TOOLKIT = (
    'pip install "cuda-toolkit[nvcc,cccl]=={version}.*"; '
    'cd "$(python -c \'import sysconfig; print(sysconfig.get_path("purelib"))\')/nvidia/cu13"; '
    "ln -s lib lib64; ln -s libcudart.so.13 lib/libcudart.so; "
    'export CUDA_HOME="$PWD"'
)


def compiler(tools: Toolchain) -> Iterator[Finding]:
    """What every inline extension needs."""
    found, ninja = tools.compiler, tools.ninja
    if found is None:
        detail = "not found: inline C++ and CUDA cannot be built"
        yield finding("C++ compiler", State.MISSING, detail, "apt install g++, or set CXX")
    else:
        yield finding("C++ compiler", State.OK, f"{_first_line(found)} at {found}")
    if ninja is None:
        yield finding("ninja", State.MISSING, "not found", "pip install ninja")
    else:
        yield finding("ninja", State.OK, f"{_first_line(ninja)} at {ninja}")
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    state = State.OK if headers.exists() else State.MISSING
    remedy = "" if headers.exists() else "apt install python3-dev"
    yield finding("Python headers", state, str(headers), remedy)


def _first_line(tool: str) -> str:
    ran = attempt([tool, "--version"])
    return (ran.stdout.splitlines() or ["no version"])[0]


def attempt(command: list[str], **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a tool, in an environment with `changes`; one that cannot run, or hangs, returns 127."""
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, **changes},
            timeout=TRIAL_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def toolkit(tools: Toolchain, *, cuda: bool, trial: bool = True) -> Iterator[Finding]:
    """nvcc: found, of torch's major version, and, on a `trial`, works with the host compiler and
    the linker."""
    lack = State.MISSING if cuda else State.WARNING
    wanted, nvcc = torch.version.cuda, tools.nvcc
    if wanted is None:
        state = State.MISSING if cuda else State.OK
        yield finding("CUDA toolkit", state, "of no use: this torch has no CUDA")
        return
    if nvcc is None or tools.cuda_home is None:
        yield finding("CUDA toolkit", lack, "nvcc not found", toolkit_remedy(wanted))
        return
    version = tools.cuda_version or "?"
    where = f"nvcc {version}, CUDA_HOME {tools.cuda_home}"
    if version.split(".")[0] != wanted.split(".")[0]:
        detail = f"{where}: torch was built with CUDA {wanted}, and the major versions must agree"
        yield finding("CUDA toolkit", lack, detail, toolkit_remedy(wanted))
        return
    yield finding("CUDA toolkit", State.OK, where)
    if tools.compiler and trial:
        yield _nvcc_trial(tools, lack)


def toolkit_remedy(version: str) -> str:
    """How to get a toolkit that fits a torch built with CUDA `version`, such as "13.0"."""
    if version.startswith("13."):
        return PIP_TOOLKIT.format(version=version)
    return (
        f"install the CUDA toolkit {version} from NVIDIA, and set CUDA_HOME to it "
        "(or install a torch for CUDA 13, for which pip has an nvcc)"
    )


def _nvcc_trial(tools: Toolchain, lack: State) -> Finding:
    """Build a kernel and link it as torch does: a host compiler too new fails at the first."""
    assert tools.nvcc
    assert tools.compiler
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "trial.cu"), str(Path(folder, "trial.o"))
        source.write_text(CUDA_TRIAL)
        own = {"PATH": tools.search_path, "TMPDIR": folder}  # as a worker has them
        compiled = attempt(
            [tools.nvcc, "-Xcompiler", "-fPIC", "-c", str(source), "-o", built], **own
        )
        libraries = [f"-L{tools.cuda_home}/lib64", "-lcudart"]
        link = [tools.compiler, "-shared", built, *libraries, "-o", f"{folder}/trial.so"]
        linked = attempt(link, **own) if compiled.returncode == 0 else compiled
    if linked.returncode == 0:
        return finding(
            "nvcc builds", State.OK, f"a kernel compiles and links with {tools.compiler}"
        )
    lines = (linked.stderr + linked.stdout).strip().splitlines()
    errors = [line for line in lines if "error" in line or "cannot find" in line] or lines
    remedy = "make a version that nvcc accepts the g++ that is found first on PATH"
    if "-lcudart" in " ".join(errors):
        remedy = f"cd {tools.cuda_home}; ln -s lib lib64; ln -s libcudart.so.* lib/libcudart.so"
    return finding("nvcc builds", lack, (errors or ["it failed"])[0], remedy)
