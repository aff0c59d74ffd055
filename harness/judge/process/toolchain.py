"""The compilers of this machine, and the clean environment that workers get.

nvcc is often found through a link or a wrapper in another folder, from which torch derives a
CUDA_HOME that does not hold the toolkit; nvcc itself is asked instead.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MachineError
from harness.syntax import PACKAGES

#: Passed on where set: how the dynamic loader finds the driver, and nothing else.
_INHERITED = ("LD_LIBRARY_PATH", "CUDA_DEVICE_ORDER", "TRITON_LIBCUDA_PATH")
_SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_DEFAULT_NVCC = Path("/usr/local/cuda/bin/nvcc")
#: Architectures whose own instructions (wgmma, tcgen05) need the "a" target.
_ACCELERATED = {"9.0", "10.0", "10.3", "12.0"}


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """Absolute paths; None where a tool is missing. `cuda_version`: what nvcc says of itself."""

    compiler: str | None
    ninja: str | None
    nvcc: str | None
    cuda_home: str | None
    cuda_version: str | None = None

    @property
    def search_path(self) -> str:
        """PATH for workers: this interpreter's folder first, then the tools', then the system's."""
        tools = [sys.executable, self.ninja, self.compiler]
        folders = [str(Path(t).parent) for t in tools if t]
        if self.cuda_home:
            folders.append(f"{self.cuda_home}/bin")
        return ":".join(dict.fromkeys([*folders, *_SYSTEM_PATH]))


@functools.cache
def find() -> Toolchain:
    """Look for compiler, ninja and nvcc the way that a build will."""
    nvcc = _nvcc()
    return Toolchain(
        compiler=shutil.which(os.environ.get("CXX", "g++")) or shutil.which("c++"),
        ninja=_ninja(),
        nvcc=nvcc,
        cuda_home=cuda_home(nvcc) if nvcc else None,
        cuda_version=_version(nvcc) if nvcc else None,
    )


def _ninja() -> str | None:
    beside = Path(sys.executable).parent / "ninja"  # a virtual environment that is not on PATH
    return str(beside) if beside.exists() else shutil.which("ninja")


def _nvcc() -> str | None:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        home = os.environ.get(variable)
        if home and Path(home, "bin/nvcc").exists():
            return str(Path(home, "bin/nvcc"))
    if on_path := shutil.which("nvcc"):
        return on_path
    # pip's nvcc (cuda-toolkit[nvcc]) is in nvidia/cu13/bin, which is on nobody's PATH.
    by_pip = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin/nvcc"), reverse=True)
    places = [_DEFAULT_NVCC, *by_pip]
    return next((str(place) for place in places if place.exists()), None)


def _version(nvcc: str) -> str | None:
    """Such as "13.0"."""
    run = _asked(nvcc, "--version")
    match = re.search(r"release (\d+\.\d+)", run.stdout) if run else None
    return match[1] if match else None


def _asked(*command: str) -> subprocess.CompletedProcess[str] | None:
    environment = dict(os.environ)
    with contextlib.suppress(OSError):  # where the user's own is full, nvcc tells nothing
        environment["TMPDIR"] = tempfile.gettempdir()
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def cuda_home(nvcc: str) -> str | None:
    """The toolkit's root according to `nvcc` itself, whatever link or wrapper led to it."""
    run = _asked(nvcc, "--dryrun", "-x", "cu", "-c", "/dev/null", "-o", "/dev/null")
    if run is None:
        return None
    match = re.search(r"^#\$ TOP=(.+)$", run.stderr, re.MULTILINE)
    root = Path(match[1].strip()) if match else Path(nvcc).resolve().parents[1]
    return str(root.resolve()) if root.exists() else None


def architecture(capability: tuple[int, int]) -> str:
    """`TORCH_CUDA_ARCH_LIST` for a compute capability, such as "9.0a" for (9, 0)."""
    text = f"{capability[0]}.{capability[1]}"
    return text + "a" if text in _ACCELERATED else text


def require_builds(tools: Toolchain, *, cuda: bool) -> None:
    """Raises `MachineError` with what to install where a build could not succeed."""
    if tools.compiler is None:
        raise MachineError("no C++ compiler found; install one (Debian, Ubuntu: apt install g++)")
    if tools.ninja is None:
        raise MachineError("ninja not found; install it with: pip install ninja")
    if cuda and (problem := cuda_problem(tools)):
        raise MachineError(problem)


def cuda_problem(tools: Toolchain) -> str | None:
    """Why CUDA solutions cannot be built here, or None."""
    import torch  # by then it has been; this module comes before, to start a worker's interpreter

    if torch.version.cuda is None:
        return "this torch has no CUDA; install a CUDA build: pip install torch"
    if tools.nvcc is None or tools.cuda_home is None:
        major = torch.version.cuda
        return f"nvcc not found; install the CUDA toolkit {major} and put its bin folder on PATH"
    found, wanted = tools.cuda_version, torch.version.cuda
    if found and found.split(".")[0] != wanted.split(".")[0]:
        return (
            f"nvcc is of CUDA {found} and torch of CUDA {wanted}: the major versions must agree; "
            "`run_eval.py doctor` tells what to install"
        )
    return None


#: Bytes; what is larger is always mapped anew: the most that glibc takes (mallopt(3)).
MOST_MMAP_THRESHOLD = 32 << 20
#: What a process needs in its environment for times that do not hang on its past.
STEADY = {
    # Threads that spin while they wait take the cores from others on a busy machine: with
    # two cores and a load of 4, eager kl_div took 44 ms with spinning and 11 ms without.
    "OMP_WAIT_POLICY": "PASSIVE",
    # What is freed is used again, as PyTorch does on CUDA. Otherwise glibc at times asks the
    # kernel for each temporary anew, which then clears it page by page: eager kl_div took 6 ms
    # in one epoch and 12 in the next, whatever the solution, and an interval was 13 +- 6.
    "MALLOC_MMAP_THRESHOLD_": str(MOST_MMAP_THRESHOLD),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}


def worker_environment(
    tools: Toolchain, *, folder: Path, visible_devices: str, arch: str | None, max_jobs: int
) -> dict[str, str]:
    """The whole environment of a worker: nothing of the caller's but the loader's paths."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment |= {
        "PATH": tools.search_path,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "CUDA_VISIBLE_DEVICES": visible_devices,
        "CUDA_SCALE_LAUNCH_QUEUES": "4x",
        "MAX_JOBS": str(max_jobs),
        "LC_ALL": "C.UTF-8",
        **STEADY,
    }
    if tools.compiler:
        environment["CXX"] = tools.compiler
    if tools.cuda_home:
        environment["CUDA_HOME"] = tools.cuda_home
        if libraries := _library_headers():
            environment["CPLUS_INCLUDE_PATH"] = ":".join(map(str, libraries))
    if arch:
        environment["TORCH_CUDA_ARCH_LIST"] = arch
    return environment


def _library_headers() -> list[Path]:
    """Headers of the CUDA libraries that torch brings as packages, which compilers look at last:
    no toolkit has cuDNN's, and one that pip or conda has installed in parts lacks cuBLAS's."""
    return sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*/include"))


def absent(modules: tuple[str, ...]) -> str:
    """The first of `modules` that is not installed, and how to install it; "" if all are."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            package = PACKAGES[module]
            return f"needs the package {module}, which is not installed here: pip install {package}"
    return ""
