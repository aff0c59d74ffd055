"""The five kinds of submission of the first day, each with the verdict that it must get.

The CUDA ones are built where nvcc is; a twin in C++ with few headers runs everywhere.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from support import ROOT, Bench

from harness.judge.process import toolchain
from harness.records import Phase, Problem, Row, Status
from harness.source import read_problem

FOLDER = Path(__file__).parent / "submissions"
SIZE = "odd"


needs_gxx = pytest.mark.skipif(toolchain.find().compiler is None, reason="needs g++")


def shipped(name: str) -> Problem:
    return read_problem(name, ROOT / "problems" / f"{name}.py")


def judged(bench: Bench, file: str | Path, problem: str, **settings: object) -> Row:
    return bench.judge(FOLDER / file, shipped(problem), SIZE, **settings)  # type: ignore[arg-type]


def built(bench: Bench, file: str, problem: str) -> Row:
    """The row of a CUDA solution that is only built, for an H100; in turn, so that what fails in
    the binding ends there."""
    return bench.build(FOLDER / file, shipped(problem), cuda_arch="9.0", max_jobs=1)


def is_row(row: Row, status: Status, phase: Phase, message: str) -> None:
    assert (row.verdict.status, row.verdict.phase) == (status, phase), row.verdict
    assert re.search(message, row.verdict.message), row.verdict.message


# --- 1: no cpp_sources, signatures in functions ------------------------------------------------

QUOTED = (
    r"^load_inline\(name='mse_extension', .*functions=\['torch::Tensor mse\(.*\) has no "
    r"cpp_sources: cpp_sources takes C\+\+ text .*, cuda_sources CUDA text, functions a list of "
    r"bare function names"
)


@pytest.mark.usefixtures("needs_nvcc")
def test_a_call_without_cpp_sources_is_a_contract_error_that_quotes_it(bench: Bench) -> None:
    row = built(bench, "1_signatures_cuda.py", "mse")
    is_row(row, Status.CONTRACT_ERROR, Phase.BUILD, QUOTED)


def test_a_call_without_cpp_sources_is_a_contract_error_on_a_cpu_too(bench: Bench) -> None:
    row = judged(bench, "1_signatures_cpu.py", "mse")
    is_row(row, Status.CONTRACT_ERROR, Phase.BUILD, QUOTED)


# --- 2: a device asked for its dtype -----------------------------------------------------------


def line_of(file: str, text: str) -> int:
    return next(
        n for n, line in enumerate((FOLDER / file).read_text().splitlines(), 1) if text in line
    )


@pytest.mark.usefixtures("needs_nvcc")
def test_cuda_that_does_not_compile_is_told_by_the_first_diagnostic_and_its_line(
    bench: Bench,
) -> None:
    file = "2_device_dtype_cuda.py"
    row = built(bench, file, "smooth_l1")
    place = rf"^{re.escape(file)}:{line_of(file, '.dtype(p.device().dtype())')} \(cuda\.cu:\d+"
    is_row(row, Status.COMPILE_ERROR, Phase.BUILD, place + r".*error: .*Device.* no member .dtype")
    assert row.build_s is not None


@needs_gxx
def test_cpp_that_does_not_compile_is_told_by_the_first_diagnostic_and_its_line(
    bench: Bench,
) -> None:
    file = "2_device_dtype_cpu.py"
    row = judged(bench, file, "smooth_l1")
    place = rf"^{re.escape(file)}:{line_of(file, 'device.dtype();')} \(main\.cpp:\d+"
    is_row(row, Status.COMPILE_ERROR, Phase.BUILD, place + r".*error: .*Device.* no member .*dtype")


# --- 3: shape [1] for [] -------------------------------------------------------------------------


def test_a_shape_of_one_is_a_wrong_output_whose_values_are_right(bench: Bench) -> None:
    row = judged(bench, "3_shape_of_one.py", "smooth_l1")
    wanted = r"\[1\].*\[\].*right values, only the shape differs"
    is_row(row, Status.WRONG_OUTPUT, Phase.FORWARD, wanted)


# --- 4: an own module beside functions; then wrong values ----------------------------------------

HINT = r"\[hint: the source has its own PYBIND11_MODULE and functions=\[\.\.\.\] adds a second\]"


@pytest.mark.usefixtures("needs_nvcc")
def test_an_own_module_beside_functions_is_a_compile_error_with_a_hint(bench: Bench) -> None:
    row = built(bench, "4_own_module_cuda.py", "kl_div")
    is_row(row, Status.COMPILE_ERROR, Phase.BUILD, "error: .*" + HINT)


@needs_gxx
def test_an_own_module_beside_functions_is_a_compile_error_on_a_cpu_too(bench: Bench) -> None:
    row = judged(bench, "4_own_module_cpu.py", "kl_div")
    is_row(row, Status.COMPILE_ERROR, Phase.BUILD, "error: .*" + HINT)


@needs_gxx
def test_with_the_build_mended_the_wrong_values_come_out(bench: Bench, tmp_path: Path) -> None:
    source = (FOLDER / "4_own_module_cpu.py").read_text()
    mended = tmp_path / "mended.py"
    mended.write_text(source.replace('FUNCTIONS = ["kl_div"]', "FUNCTIONS = None"))
    row = judged(bench, mended, "kl_div")
    is_row(row, Status.WRONG_OUTPUT, Phase.FORWARD, "^output: ")


# --- 5: a right forward without autograd ---------------------------------------------------------


def test_a_right_forward_without_autograd_is_forward_only_with_its_speedup(bench: Bench) -> None:
    row = judged(bench, "5_no_autograd.py", "mse", modes=("forward", "forward_backward"))
    is_row(row, Status.FORWARD_ONLY, Phase.BACKWARD, "no grad_fn")
    flat = row.flat()
    assert isinstance(flat["forward_speedup"], float)
    assert isinstance(flat["forward_reference_ms"], float)
    assert flat["forward_backward_speedup"] is None


def test_every_submission_has_its_test() -> None:
    assert torch.__version__  # the files import it, as submissions do
    text = Path(__file__).read_text()
    assert all(path.name in text for path in FOLDER.glob("*.py"))
