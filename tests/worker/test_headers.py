"""Lean headers: tried first, never decisive, and the same code where both build.

Only the last two tests compile against torch's headers: about a minute of one core in all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support import ROOT, constant
from torch.utils import cpp_extension

from harness.judge.process import toolchain
from harness.worker import headers
from harness.worker.building import Builder, Record
from harness.worker.faults import CompileFault


@pytest.fixture(autouse=True)
def torchs_own() -> Iterator[None]:
    """Whatever a test installs, torch's functions are back afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("load_inline", "load"):
            patch.setattr(cpp_extension, name, getattr(cpp_extension, name))
        yield


def is_lean(call: dict[str, Any]) -> bool:
    return str(headers.INCLUDE) in (call.get("extra_include_paths") or [])


class Fake:
    """Stands in for torch's load_inline; raises what `lean` or `full` hold for such a build."""

    def __init__(self, lean: Exception | None = None, full: Exception | None = None) -> None:
        self.errors = {True: lean, False: full}
        self.calls: list[dict[str, Any]] = []

    def __call__(
        self,
        name: str,
        cpp_sources: Any,
        cuda_sources: Any = None,
        functions: Any = None,
        **rest: Any,
    ) -> ModuleType:
        folder = Path(rest["build_directory"])
        self.calls.append(rest)
        (folder / "main.cpp").write_text(f"#include <torch/extension.h>\n{cpp_sources}\n")
        if error := self.errors[is_lean(rest)]:
            raise error
        (folder / f"{name}.so").write_text("")
        return ModuleType(name)


def build(fake: Fake, cache: Path, *, lean: bool = True, source: str = "", **call: Any) -> Record:
    """The record of one build by a new worker, which is also kept where the build fails."""
    cpp_extension.load_inline = fake
    made = Builder(cache=cache, salt="s", lean=lean, source=source, source_name="answer.py")
    made.install()
    with contextlib.suppress(CompileFault):
        cpp_extension.load_inline(**({"name": "x", "cpp_sources": "int a;"} | call))
    return made.records[0]


def compile_error(text: str) -> RuntimeError:
    return RuntimeError(f"Error building extension 'x': [1/2] c++ ...\n{text}")


# --- which headers ----------------------------------------------------------------------------


def test_what_builds_lean_is_built_once_and_says_so(tmp_path: Path) -> None:
    fake = Fake()
    record = build(fake, tmp_path, extra_include_paths=["/mine"])
    assert (record.headers, len(fake.calls)) == ("lean", 1)
    first, *_, last = fake.calls[0]["extra_include_paths"]
    assert (first, last) == (str(headers.INCLUDE), "/mine")


@pytest.mark.parametrize(
    "error",
    [compile_error("main.cpp:2: error: no"), ImportError("undefined symbol"), OSError("disk")],
    ids=str,
)
def test_whatever_fails_lean_is_built_against_torchs_headers(
    tmp_path: Path, error: Exception
) -> None:
    fake = Fake(lean=error)
    record = build(fake, tmp_path, extra_include_paths=["/mine"])
    assert [is_lean(call) for call in fake.calls] == [True, False]
    assert fake.calls[1]["extra_include_paths"] == ["/mine"]
    assert (record.headers, record.error) == ("torch", None)
    assert len(list(tmp_path.iterdir())) == 1, "a failed attempt leaves nothing"


def test_what_torch_adds_to_lists_in_one_attempt_is_not_in_the_next(tmp_path: Path) -> None:
    seen = []

    class Adding(Fake):
        """Adds to every list that it gets, as torch's does to those of sources."""

        def __call__(self, name: str, *sources: Any, **call: Any) -> ModuleType:
            lists = {key: value for key, value in call.items() if isinstance(value, list)}
            seen.append({key: list(value) for key, value in lists.items()})
            for value in lists.values():
                value.append("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}")
            return super().__call__(name, *sources, **call)

    own = {"cpp_sources": ["int f();"], "cuda_sources": ["int f() {}"], "functions": ["f"]}
    kept = {key: list(value) for key, value in own.items()}
    record = build(Adding(lean=compile_error("no")), tmp_path, **own)
    assert record.headers == "torch"
    assert [{key: lists[key] for key in own} for lists in seen] == [kept, kept]
    assert own == kept, "nor is anything of it in the solution's"


def test_what_fails_with_both_is_told_in_torchs_words_at_the_authors_line(tmp_path: Path) -> None:
    fake = Fake(
        lean=compile_error("main.cpp:3:1: error: the lean one"),
        full=compile_error("main.cpp:3:1: error: torch's own"),
    )
    source = 'CPP = """\nint f() { x }\n"""'
    record = build(fake, tmp_path, source=source, cpp_sources="\nint f() { x }")
    assert record.error == "answer.py:2 (main.cpp:3: `int f() { x }`): error: torch's own"
    assert record.headers is None
    assert not list(tmp_path.iterdir())


def test_the_setting_off_means_torchs_headers_alone(tmp_path: Path) -> None:
    fake = Fake()
    record = build(fake, tmp_path, lean=False)
    assert (record.headers, len(fake.calls), is_lean(fake.calls[0])) == ("torch", 1, False)


def test_torchs_own_precompiled_header_is_left_to_torch(tmp_path: Path) -> None:
    assert build(Fake(), tmp_path, use_pch=True).headers == "torch"


def test_the_cache_keeps_lean_and_full_apart_and_knows_which_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.worker.libraries.open_library", lambda folder: None)
    fake = Fake(lean=compile_error("no"))
    for lean, calls in ((True, 2), (False, 3), (True, 3), (False, 3)):
        record = build(fake, tmp_path, lean=lean)
        assert (record.headers, len(fake.calls)) == ("torch", calls), lean
    assert record.cached
    monkeypatch.setattr(headers, "digest", lambda: "other headers")
    build(fake, tmp_path)
    assert len(fake.calls) == 5


def test_the_operators_that_a_text_names_are_included_and_no_others(tmp_path: Path) -> None:
    text = "auto y = at::empty_like(x); using namespace at; z = matmul(x, y); int index; // zeros"
    headers.lean_call({}, [text, "torch::cat({a, b})"], tmp_path)
    (written,) = tmp_path.iterdir()
    included = [line.split("<")[1].rstrip(">") for line in written.read_text().splitlines()]
    assert included == [  # not TensorIndexing.h for the name of a variable
        "ATen/core/IListRef.h",
        *(f"ATen/ops/{name}.h" for name in ("cat", "empty_like", "index", "matmul", "zeros")),
    ]


# --- real builds ------------------------------------------------------------------------------

#: Factories of torch:: and at::, with and without requires_grad.
FACTORIES = r"""
#include <vector>

std::vector<torch::Tensor> made() {
  auto with = torch::TensorOptions().dtype(torch::kFloat64).requires_grad(true);
  auto x = torch::ones({2, 3}, with);
  std::vector<torch::Tensor> all = {
      x, torch::zeros({2}), torch::full({2}, 7.0, with), torch::arange(4, with),
      torch::empty_like(x), torch::zeros_like(x, with), torch::tensor({1.0, 2.0}, with),
      at::zeros({2}, torch::kFloat32), torch::eye(2, with), torch::empty({0}, with)};
  {
    torch::NoGradGuard guard;
    all.push_back(x * 2);
    all.push_back(torch::ones({1}, with));
  }
  all.push_back(torch::matmul(x, x.t()) + 1);
  return all;
}

std::string refusal() {
  try {
    torch::ones({1}, torch::TensorOptions().dtype(torch::kInt64).requires_grad(true));
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "none";
}
"""
#: What the lean headers lack.
MODULES = "torch::Tensor further(torch::Tensor x) { return torch::nn::ReLU()(x); }"


def shipped() -> str:
    """The C++ solutions of this repository, each in a namespace of its own, in one text: torch's
    headers take most of the time."""
    files = sorted((ROOT / "solutions").glob("*/cpp.py"))
    texts = {file.parent.name: constant(file, "CPP_SOURCE") for file in files}
    lines = [line for text in texts.values() for line in text.splitlines()]
    spaces = [f"namespace {name} {{\n{text}\n}}" for name, text in texts.items()]
    return "\n".join([*(line for line in lines if line.startswith("#include")), *spaces])


def traits(tensor: torch.Tensor) -> tuple[Any, ...]:
    node = type(tensor.grad_fn).__name__
    return tensor.dtype, tuple(tensor.shape), tensor.requires_grad, tensor.is_leaf, node


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_factories_are_torchs_own_and_what_is_lacking_falls_back(tmp_path: Path) -> None:
    """Torch's own headers get the shipped solutions too, which are run as built with lean ones."""
    made = Builder(cache=tmp_path, salt="s", lean=True)
    made.install()
    load: Callable[..., Any] = cpp_extension.load_inline
    lean = load("lean", FACTORIES, functions=["made", "refusal"])
    full = load(
        "full",
        [MODULES, FACTORIES, shipped()],
        functions=["made", "refusal", "further"],
        extra_cflags=["-Wfatal-errors"],  # the lean attempt ends where it begins to fail
    )
    assert [record.headers for record in made.records] == ["lean", "torch"]
    assert full.further(torch.tensor([-1.0, 1.0])).tolist() == [0.0, 1.0]
    ours, torchs = lean.made(), full.made()
    assert [traits(tensor) for tensor in ours] == [traits(tensor) for tensor in torchs]
    assert sum(tensor.requires_grad for tensor in ours) >= 6
    assert lean.refusal() == full.refusal() != "none"


@dataclass(frozen=True, kw_only=True)
class CudaTools:
    nvcc: str
    cuobjdump: str


@pytest.fixture
def cuda_tools() -> CudaTools:
    tools = toolchain.find()
    if problem := toolchain.cuda_problem(tools):
        pytest.skip(problem)
    assert tools.nvcc is not None
    triton = Path(sysconfig.get_path("purelib"), "triton/backends/nvidia/bin/cuobjdump")
    found = shutil.which("cuobjdump", path=f"{tools.cuda_home}/bin:{os.environ['PATH']}")
    if found is None and not triton.exists():
        pytest.skip("cuobjdump not found")
    return CudaTools(nvcc=tools.nvcc, cuobjdump=found or str(triton))


#: Half arithmetic, math, accessors, a dispatch: where device code could depend on headers.
KERNEL = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAException.h>

template <typename T>
__global__ void scale(at::PackedTensorAccessor32<T, 1> x, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < x.size(0)) x[i] = x[i] * static_cast<T>(factor) + static_cast<T>(exp(float(x[i])));
}

void run(torch::Tensor x) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scale", [&] {
    scale<scalar_t><<<1, 256>>>(x.packed_accessor32<scalar_t, 1>(), 2.0f);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
"""


def test_device_code_is_the_same_with_both(tmp_path: Path, cuda_tools: CudaTools) -> None:
    (tmp_path / "cuda.cu").write_text(KERNEL)
    lean = headers.lean_call({}, [KERNEL], tmp_path)["extra_include_paths"]
    own = [f"-isystem={path}" for path in cpp_extension.include_paths("cuda")]
    flags = [*cpp_extension.COMMON_NVCC_FLAGS, "-std=c++20", "-arch=sm_90", *own]
    dumps = []
    for name, first in (("lean", [f"-I{path}" for path in lean]), ("torch", [])):
        output = str(tmp_path / f"{name}.cubin")
        command = [cuda_tools.nvcc, "-cubin", *first, *flags, "cuda.cu", "-o", output]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        dump = [cuda_tools.cuobjdump, "-sass", output]
        dumps.append(subprocess.run(dump, check=True, capture_output=True, text=True).stdout)
    assert dumps[0].count("Function : ") == 4
    assert dumps[0] == dumps[1]
