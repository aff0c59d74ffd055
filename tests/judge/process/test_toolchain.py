"""Compilers are found whatever leads to them, and a worker inherits nothing else."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from harness.config import Settings
from harness.errors import MachineError, RequestError
from harness.judge.process import toolchain
from harness.judge.process.toolchain import Toolchain, cuda_home, require_builds, worker_environment

TOOLS = Toolchain(compiler="/c/g++", ninja="/n/ninja", nvcc="/v/bin/nvcc", cuda_home="/v")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`find` looks again, and no variable of this machine leads it."""
    for name in ("CUDA_HOME", "CUDA_PATH", "CXX"):
        monkeypatch.delenv(name, raising=False)
    toolchain.find.cache_clear()
    yield
    toolchain.find.cache_clear()


def toolkit(root: Path, *, says: str = "real") -> Path:
    """A folder that looks like a CUDA toolkit; its nvcc names its own root as nvcc does."""
    nvcc = root / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    top = {"real": f'echo "#\\$ TOP={nvcc.parent}/.." >&2', "silent": "true"}[says]
    nvcc.write_text(f'#!/bin/sh\necho "#\\$ _SPACE_= " >&2\n{top}\n')
    nvcc.chmod(0o755)
    return nvcc


# --- the toolkit's root -------------------------------------------------------------------------


def test_nvcc_itself_leads_to_its_toolkit(tmp_path: Path) -> None:
    assert cuda_home(str(toolkit(tmp_path / "cuda-13"))) == str(tmp_path / "cuda-13")


def test_a_link_in_another_folder_leads_to_the_toolkit(tmp_path: Path) -> None:
    link = tmp_path / "usr" / "bin" / "nvcc"
    link.parent.mkdir(parents=True)
    link.symlink_to(toolkit(tmp_path / "cuda-13"))
    assert cuda_home(str(link)) == str(tmp_path / "cuda-13")


@pytest.mark.parametrize("says", ["real", "silent"])
def test_a_link_leads_there_even_if_nvcc_does_not_tell(tmp_path: Path, says: str) -> None:
    link = tmp_path / "nvcc"
    link.symlink_to(toolkit(tmp_path / "cuda-13", says=says))
    assert cuda_home(str(link)) == str(tmp_path / "cuda-13")


def test_a_wrapper_script_in_another_folder_leads_to_the_toolkit(tmp_path: Path) -> None:
    nvcc = toolkit(tmp_path / "cuda 13")
    wrapper = tmp_path / "usr" / "bin" / "nvcc"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(f'#!/bin/sh\nexec "{nvcc}" "$@"\n')
    wrapper.chmod(0o755)
    assert cuda_home(str(wrapper)) == str(tmp_path / "cuda 13")


def test_an_nvcc_that_cannot_run_has_no_toolkit(tmp_path: Path) -> None:
    broken = tmp_path / "nvcc"
    broken.write_text("no program")
    assert cuda_home(str(broken)) is None
    assert cuda_home(str(tmp_path / "missing")) is None


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_nvcc_of_this_machine_leads_to_headers_and_runtime(tmp_path: Path) -> None:
    found = shutil.which("nvcc")
    assert found is not None
    link = tmp_path / "nvcc"
    link.symlink_to(found)
    for nvcc in (found, str(link)):
        home = cuda_home(nvcc)
        assert home is not None
        assert Path(home, "bin", "nvcc").exists()
        assert list(Path(home).rglob("cuda_runtime.h"))


@pytest.mark.parametrize("place", ["missing", "file"])
def test_nvcc_is_asked_where_the_users_own_temporary_folder_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    """The real one names no root then, and that of a wrapper was taken for it."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path / place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    nvcc = toolkit(tmp_path / "cuda-13")
    nvcc.write_text(nvcc.read_text().replace("\n", '\ntouch "$TMPDIR/x$$" || exit 1\n', 1))
    wrapper = tmp_path / "bin" / "nvcc"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec "{nvcc}" "$@"\n')
    wrapper.chmod(0o755)
    assert cuda_home(str(wrapper)) == str(tmp_path / "cuda-13")


@pytest.mark.usefixtures("fresh")
def test_cuda_home_wins_over_the_path_and_the_path_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = toolkit(tmp_path / "one"), toolkit(tmp_path / "two")
    monkeypatch.setenv("PATH", f"{two.parent}:{os.environ['PATH']}")
    assert toolchain.find().cuda_home == str(tmp_path / "two")
    toolchain.find.cache_clear()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "one"))
    assert toolchain.find().nvcc == str(one)
    toolchain.find.cache_clear()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "empty"))  # a stale variable leads nowhere
    assert toolchain.find().nvcc == str(two)


# --- what is missing ----------------------------------------------------------------------------


@pytest.mark.usefixtures("fresh")
def test_nothing_on_the_path_is_nothing_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    tools = toolchain.find()
    assert (tools.compiler, tools.ninja) == (None, None)


@pytest.mark.usefixtures("fresh")
def test_ninja_beside_the_interpreter_is_found_off_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ninja").write_text("")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert toolchain.find().ninja == str(tmp_path / "ninja")


def without(**changes: None) -> Toolchain:
    parts = {"compiler": "g++", "ninja": "ninja", "nvcc": "nvcc", "cuda_home": "/v"}
    return Toolchain(**(parts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tools", "cuda", "wanted"),
    [
        (without(compiler=None), False, r"no C\+\+ compiler .* install .*g\+\+"),
        (without(ninja=None), False, r"ninja not found; install .* pip install ninja"),
        (
            without(nvcc=None, cuda_home=None),
            True,
            r"nvcc not found; install the CUDA toolkit 12.9",
        ),
        (without(cuda_home=None), True, r"nvcc not found"),
    ],
    ids=["compiler", "ninja", "nvcc", "toolkit"],
)
def test_what_is_missing_is_said_in_one_line_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tools: Toolchain, cuda: bool, wanted: str
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    with pytest.raises(MachineError, match=wanted) as caught:
        require_builds(tools, cuda=cuda)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 3


def test_a_torch_without_cuda_is_said_before_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(MachineError, match="this torch has no CUDA"):
        require_builds(TOOLS, cuda=True)
    require_builds(TOOLS, cuda=False)


def test_an_nvcc_of_another_major_version_is_refused_and_of_another_minor_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    parts = {"compiler": "g++", "ninja": "ninja", "nvcc": "nvcc", "cuda_home": "/v"}
    with pytest.raises(MachineError, match=r"nvcc is of CUDA 12.8 and torch of CUDA 13.0"):
        require_builds(Toolchain(**parts, cuda_version="12.8"), cuda=True)
    for fine in ("13.0", "13.2", None):
        require_builds(Toolchain(**parts, cuda_version=fine), cuda=True)


@pytest.mark.usefixtures("fresh")
def test_the_nvcc_that_pip_installed_is_found_off_the_path_and_the_path_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_pip = toolkit(tmp_path / "site" / "nvidia" / "cu13")
    by_pip.write_text(by_pip.read_text() + 'echo "Cuda tools, release 13.1, V13.1.0"\n')
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda name: str(tmp_path / "site"))
    monkeypatch.setattr(toolchain, "_DEFAULT_NVCC", tmp_path / "nothing")
    path = os.environ["PATH"].split(":")
    without_nvcc = ":".join(p for p in path if not Path(p, "nvcc").exists())
    monkeypatch.setenv("PATH", f"{without_nvcc}:/bin:/usr/bin")
    found = toolchain.find()
    assert found.nvcc == str(by_pip)
    assert found.cuda_home == str(tmp_path / "site" / "nvidia" / "cu13")
    assert found.cuda_version == "13.1"
    toolchain.find.cache_clear()
    on_path = toolkit(tmp_path / "cuda")
    monkeypatch.setenv("PATH", f"{on_path.parent}:{os.environ['PATH']}")
    assert toolchain.find().nvcc == str(on_path)


def test_nvcc_is_not_asked_for_where_nothing_is_cuda() -> None:
    require_builds(without(nvcc=None, cuda_home=None), cuda=False)


# --- architectures ------------------------------------------------------------------------------


def test_architectures_of_devices() -> None:
    assert toolchain.architecture((8, 6)) == "8.6"
    assert toolchain.architecture((9, 0)) == "9.0a"
    assert toolchain.architecture((10, 0)) == "10.0a"


@pytest.mark.parametrize("text", ["sm_90", "All", "8.6,9.0", "90", "9", "9.0b", "", "9.0 -o x"])
def test_a_bad_architecture_is_refused_with_its_value_and_an_example(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        Settings(cuda_arch=text)
    assert repr(text) in str(caught.value)
    assert '"9.0"' in str(caught.value)


@pytest.mark.parametrize("text", ["9.0", "9.0a", "10.3f", "8.0;9.0a", "8.6+PTX"])
def test_good_architectures_are_taken(text: str) -> None:
    assert Settings(cuda_arch=text).cuda_arch == text


# --- the worker's environment -------------------------------------------------------------------

FORBIDDEN = (
    "AWS_SECRET_ACCESS_KEY",
    "HF_TOKEN",
    "LD_PRELOAD",
    "LD_AUDIT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "TORCH_LOGS",
    "TORCH_CUDA_ARCH_LIST",
    "TORCH_EXTENSIONS_DIR",
    "CUDA_LAUNCH_BLOCKING",
    "CFLAGS",
    "CPATH",
    "OMP_NUM_THREADS",
    "SSH_AUTH_SOCK",
    "http_proxy",
)


def environment(tools: Toolchain = TOOLS, arch: str | None = "9.0a") -> dict[str, str]:
    return worker_environment(
        tools, folder=Path("/private"), visible_devices="GPU-1", arch=arch, max_jobs=3
    )


def test_nothing_of_the_callers_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FORBIDDEN:
        monkeypatch.setenv(name, "the caller's")
    monkeypatch.setenv("PATH", "/the caller's")
    monkeypatch.setenv("HOME", "/the caller's")
    assert "the caller's" not in str(environment())


def test_the_loaders_paths_are_passed_on_where_they_are_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert "LD_LIBRARY_PATH" not in environment()
    monkeypatch.setenv("LD_LIBRARY_PATH", "/drivers")
    assert environment()["LD_LIBRARY_PATH"] == "/drivers"


def test_the_path_has_the_interpreter_first_then_the_tools_each_once() -> None:
    folders = environment()["PATH"].split(":")
    assert folders[:4] == [str(Path(sys.executable).parent), "/n", "/c", "/v/bin"]
    assert "/usr/bin" in folders
    assert len(set(folders)) == len(folders)


def test_a_worker_sees_one_device_and_builds_for_it() -> None:
    found = environment()
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert found["TORCH_CUDA_ARCH_LIST"] == "9.0a"
    assert found["CUDA_HOME"] == "/v"
    assert found["CXX"] == "/c/g++"
    assert found["MAX_JOBS"] == "3"


def test_headers_of_cudas_libraries_are_found_where_the_toolkit_lacks_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cuDNN's never lie in it, and others not where it is installed in parts. The toolkit's own
    come first."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "packages"))
    assert "CPLUS_INCLUDE_PATH" not in environment()
    packaged, toolkit = tmp_path / "packages" / "nvidia" / "any" / "include", tmp_path / "toolkit"
    for folder, names in ((packaged, ("library.h", "runtime.h")), (toolkit, ("runtime.h",))):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_text("")
    (tmp_path / "a.cpp").write_text("#include <library.h>\n#include <runtime.h>\n")
    command = ["g++", "-isystem", str(toolkit), "-M", str(tmp_path / "a.cpp")]
    variables = environment() | {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    made = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert f"{packaged}/library.h" in made.stdout
    assert f"{toolkit}/runtime.h" in made.stdout


def test_every_folder_that_is_written_to_is_private() -> None:
    found = environment()
    for name in ("HOME", "TMPDIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR"):
        assert found[name].startswith("/private")


FREED = """
import resource
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytearray(24 << 20)
before = faults()
for _ in range(20):
    bytearray(24 << 20)
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the variables are glibc's")
def test_what_a_worker_frees_it_uses_again() -> None:
    """The kernel gives it no page twice, as it otherwise does in each call, or does not."""

    def faults(variables: dict[str, str]) -> int:
        done = subprocess.run(
            [sys.executable, "-I", "-c", FREED], env=variables, stdout=subprocess.PIPE, check=True
        )
        return int(done.stdout)

    own = {name: value for name, value in environment().items() if name.startswith("MALLOC_")}
    pages = (24 << 20) // resource.getpagesize()
    assert faults(own) < pages
    assert faults({"MALLOC_MMAP_THRESHOLD_": "65536"}) > 10 * pages


def test_what_is_not_known_is_not_set() -> None:
    found = environment(without(compiler=None, cuda_home=None), arch=None)
    assert not {"CXX", "CUDA_HOME", "TORCH_CUDA_ARCH_LIST"} & set(found)
