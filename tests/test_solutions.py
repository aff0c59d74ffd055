"""The shipped solutions: right on every layout and value, as accurate as eager, deterministic.

C++ solutions are built once, as the harness builds them, and run; that torch's own headers take
them too is seen in tests/worker/test_headers.py. Of the CUDA ones, the device code is compiled
where nvcc is present; they are built and run where there is a GPU (`pytest -m gpu`).
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from support import ROOT, constant
from torch.utils import cpp_extension

from harness.shared.problem import Draw, Instance
from harness.worker.building import Builder

PROBLEMS = ("kl_div", "mse", "smooth_l1")
SMALL_SIZES = ("smoke", "odd")
CPU = torch.device("cpu")

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], ModuleType]:
    """(problem, solution) -> the loaded solution file, built at first use; C++ against the lean
    headers, in a third of the time."""
    folder = tmp_path_factory.mktemp("extensions")

    @functools.cache
    def load(problem: str, solution: str) -> ModuleType:
        path = ROOT / "solutions" / problem / f"{solution}.py"
        spec = importlib.util.spec_from_file_location(f"{problem}_{solution}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("load_inline", "load"):  # as they are, afterwards
                patch.setattr(cpp_extension, name, getattr(cpp_extension, name))
            Builder(cache=folder, salt=problem, lean=solution == "cpp").install()
            spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(params=PROBLEMS)
def problem(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cpp(build: Callable[[str, str], ModuleType], problem: str) -> Function:
    return build(problem, "cpp").ModelNew()  # type: ignore[no-any-return]


@pytest.fixture
def cuda(build: Callable[[str, str], ModuleType], problem: str) -> Function:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return build(problem, "cuda").ModelNew()  # type: ignore[no-any-return]


def instance(problem: str, size: str, dtype: torch.dtype, device: torch.device) -> Instance:
    path = ROOT / "problems" / f"{problem}.py"
    return Instance(source=path.read_text(), path=str(path), size=size, dtype=dtype, device=device)


def reference(problem: str) -> Function:
    return instance(problem, "odd", torch.float64, CPU).model(0)


def pair(
    problem: str,
    shape: tuple[int, ...],
    device: torch.device = CPU,
    dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positive predictions and targets, on both sides of every branch."""
    generator = torch.Generator().manual_seed(math.prod(shape))
    predictions = 0.05 + 3 * torch.rand(shape, generator=generator)
    targets = 0.05 + 3 * torch.rand(shape, generator=generator)
    return (
        predictions.to(device=device, dtype=dtype),
        targets.to(device=device, dtype=dtype),
    )


def run(
    function: Function, predictions: torch.Tensor, targets: torch.Tensor, grad: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Output and both gradients, in float64, for the given grad_output."""
    leaves = [x.detach().requires_grad_() for x in (predictions, targets)]
    output = function(*leaves)
    gradients = torch.autograd.grad(output, leaves, torch.full_like(output, grad))
    assert output.shape == ()
    assert all(
        g.shape == x.shape and g.dtype == x.dtype for g, x in zip(gradients, leaves, strict=True)
    )
    return output.detach().double(), gradients[0].double(), gradients[1].double()


def assert_as_accurate_as_eager(
    problem: str, solution: Function, predictions: torch.Tensor, targets: torch.Tensor
) -> None:
    """Against float64, no error above eager's at the same dtype, give or take the last bit."""
    model = reference(problem)
    exact = run(model, predictions.double(), targets.double(), grad=-0.75)
    eager = run(model, predictions, targets, grad=-0.75)
    ours = run(solution, predictions, targets, grad=-0.75)
    last_bit = torch.finfo(predictions.dtype).eps / 2
    for name, e, r, o in zip(("output", "predictions", "targets"), exact, eager, ours, strict=True):
        error, allowed = (o - e).norm(), (r - e).norm() + last_bit * e.norm() * 0.5
        assert error <= allowed, (
            f"{name}: error {error:.3e}, eager's and the last bit {allowed:.3e}"
        )


def assert_right(problem: str, solution: Function, *inputs: torch.Tensor) -> None:
    """As PyTorch in float64, within what the dtype resolves; NaN and infinity in their places.

    Where eager itself is worse than that (log(t) - log(p) + 1 near 0, say), within eager's error.
    """
    dtype = inputs[0].dtype
    model = reference(problem)
    exact = run(model, *(x.double() for x in inputs), grad=2.5)
    eager = run(model, *inputs, grad=2.5)
    ours = run(solution, *inputs, grad=2.5)
    rtol = max(4 * torch.finfo(dtype).eps, 1e-13)
    for e, r, o in zip(exact, eager, ours, strict=True):
        expected = e.to(dtype).double()  # past the dtype's range: infinite
        eagers_error, largest = (
            max(x[x.isfinite()].abs().tolist(), default=0.0) for x in (r - expected, expected)
        )
        atol = rtol * largest + eagers_error
        torch.testing.assert_close(o, expected, rtol=rtol, atol=atol, equal_nan=True)


def misaligned(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, contiguous, at an address that is no multiple of 16 bytes."""
    flat = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)[1:]
    return flat.copy_(tensor.reshape(-1)).view(tensor.shape)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: x.t().contiguous().t(),
    "sliced": lambda x: torch.cat([x, x], dim=1)[:, : x.shape[1]],
    "misaligned": misaligned,
    "expanded": lambda x: x[:, :1].expand_as(x),
}


# --- C++ ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SMALL_SIZES)
def test_cpp_is_as_accurate_as_eager(problem: str, cpp: Function, size: str) -> None:
    for seed in range(3):
        inputs = instance(problem, size, torch.float32, CPU).inputs(Draw(seed=seed))
        assert_as_accurate_as_eager(problem, cpp, *inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_cpp_is_as_accurate_as_eager_in_other_dtypes(
    problem: str, cpp: Function, dtype: torch.dtype
) -> None:
    inputs = instance(problem, "odd", dtype, CPU).inputs(Draw(seed=0))
    assert_as_accurate_as_eager(problem, cpp, *inputs)


def test_cpp_takes_float64(problem: str, cpp: Function) -> None:
    assert_right(problem, cpp, *instance(problem, "odd", torch.float64, CPU).inputs(Draw(seed=0)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cpp_takes_any_layout(problem: str, cpp: Function, layout: str) -> None:
    predictions, targets = pair(problem, (37, 53))
    assert_right(problem, cpp, LAYOUTS[layout](predictions), LAYOUTS[layout](targets))
    assert_right(problem, cpp, LAYOUTS[layout](predictions), targets)


@pytest.mark.parametrize(
    "shape", [(1,), (1, 1), (7,), (2, 3, 5), (1, 16384), (16385,), (3, 40000)], ids=str
)
def test_cpp_takes_any_shape(problem: str, cpp: Function, shape: tuple[int, ...]) -> None:
    assert_right(problem, cpp, *pair(problem, shape))


def test_cpp_of_nothing_is_nan_as_in_pytorch(problem: str, cpp: Function) -> None:
    assert_right(problem, cpp, torch.empty(0, 3), torch.empty(0, 3))


def test_cpp_gives_the_same_bits_on_any_number_of_threads(problem: str, cpp: Function) -> None:
    inputs = instance(problem, "odd", torch.float32, CPU).inputs(Draw(seed=1))
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3, 2, 1):
            torch.set_num_threads(count)
            results.append(run(cpp, *inputs))
    finally:
        torch.set_num_threads(threads)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], result, strict=True))


def test_cpp_computes_only_the_gradients_that_are_needed(problem: str, cpp: Function) -> None:
    predictions, targets = pair(problem, (5, 7))
    for which in (0, 1):
        leaves = [predictions.clone(), targets.clone()]
        leaves[which].requires_grad_()
        cpp(*leaves).backward()  # type: ignore[no-untyped-call]
        assert leaves[which].grad is not None
        assert leaves[1 - which].grad is None


def test_cpp_says_what_it_does_not_support(problem: str, cpp: Function) -> None:
    x = torch.ones(4, 6)
    with pytest.raises(
        RuntimeError, match=f"{problem}: float32, float64, .* are supported, got Int"
    ):
        cpp(x.int(), x.int())
    with pytest.raises(RuntimeError, match=f"{problem}: .* same dtype, got Float and Double"):
        cpp(x, x.double())
    with pytest.raises(RuntimeError, match=rf"{problem}: .* same shape, got \[4, 6\] and \[6, 4\]"):
        cpp(x, x.t())
    with pytest.raises(RuntimeError, match=f"{problem}: .* must be on the CPU, got meta and cpu"):
        cpp(x.to("meta"), x)


# --- values that need care ---------------------------------------------------------------------

NAN, INF = math.nan, math.inf
SUBNORMAL, TINY, HUGE = 1e-40, 1.2e-38, 3e38

CAREFUL_PAIRS = [  # (predictions, targets) of KL divergence
    ([0.25, 0.75], [0.0, 1.0]),
    ([0.0, 1.0], [0.5, 0.5]),
    ([0.0, 1.0], [0.0, 1.0]),
    ([SUBNORMAL, 1.0], [0.5, 0.5]),
    ([0.5, 0.5], [SUBNORMAL, 1.0]),
    ([TINY, 1.0], [0.5, 0.5]),
    ([0.5, 0.5], [TINY, 1.0]),
    ([TINY, TINY], [1.5 * TINY, 1.0]),
    ([HUGE, 1.0], [0.5, 0.5]),
    ([INF, 1.0], [0.5, 0.5]),
    ([-0.5, 0.5], [0.5, 0.5]),
    ([0.5, 0.5], [-0.5, 0.5]),
    ([NAN, 0.5], [0.5, 0.5]),
    ([0.5, 0.5], [NAN, 0.5]),
    ([0.0, 0.5], [-0.0, 0.5]),
]


def assert_careful(solution: Function, device: torch.device) -> None:
    # Each pair amid 8191 ordinary ones, and so on whatever path those take.
    for predictions, targets in CAREFUL_PAIRS:
        for count in (0, 8190):
            p = torch.tensor([*predictions, *[0.5] * count], device=device)
            t = torch.tensor([*targets, *[0.5] * count], device=device)
            assert_right("kl_div", solution, p, t)


def assert_nan_stays(problem: str, solution: Function, device: torch.device) -> None:
    predictions, targets = pair(problem, (64, 129), device)
    predictions[17, 5] = NAN
    output, gradient, _ = run(solution, predictions, targets)
    assert output.isnan()
    assert gradient.isnan().nonzero().tolist() == [[17, 5]]


def assert_log_ratio(solution: Function, device: torch.device) -> None:
    """Every ratio of magnitudes, near 1 too, term by term: one element is its own sum.

    Under 2^115: a thread adds 16 of them up in float, and 2^115 x log(2^235) x 16 < 2^128. Equal
    terms round alike, so how far a sum is off hangs on how many a lane of this machine adds up.
    """
    generator = torch.Generator().manual_seed(0)
    exponents = torch.randint(-120, 113, (2, 400), generator=generator)
    exponents[1, 200:] = exponents[0, 200:] + torch.randint(-2, 3, (200,), generator=generator)
    mantissas = 1 + torch.rand(2, 400, generator=generator)
    for p, t in torch.ldexp(mantissas, exponents).T.to(device):
        # A full vector path: 8192 times the same pair.
        output = solution(p.expand(8192).contiguous(), t.expand(8192).contiguous()).double()
        exact = t.double() * (t.double().log() - p.double().log())
        rtol = 4 * torch.finfo(torch.float32).eps
        torch.testing.assert_close(output, exact, rtol=rtol, atol=float(t) * 2e-8)


def test_cpp_kl_div_takes_zeros_and_other_values_that_need_care(
    build: Callable[[str, str], ModuleType],
) -> None:
    assert_careful(build("kl_div", "cpp").ModelNew(), CPU)


def test_cpp_kl_div_logarithm_is_right_for_every_ratio(
    build: Callable[[str, str], ModuleType],
) -> None:
    assert_log_ratio(build("kl_div", "cpp").ModelNew(), CPU)


def test_cpp_keeps_nan(problem: str, cpp: Function) -> None:
    assert_nan_stays(problem, cpp, CPU)


# --- CUDA without a GPU ------------------------------------------------------------------------


def nvcc() -> str:
    home = os.environ.get("CUDA_HOME")
    found = shutil.which("nvcc", path=f"{home}/bin" if home else None) or shutil.which("nvcc")
    if found is None:
        pytest.skip("needs nvcc")
    return found


def device_code(problem: str) -> str:
    """The kernels of a CUDA solution without torch's headers, which take most of a build."""
    source = constant(ROOT / "solutions" / problem / "cuda.py", "CUDA_SOURCE")
    kernels = source.partition("namespace {")[2].partition("std::string text")[0]
    return f"#include <cuda_fp16.h>\n#include <cstdint>\nnamespace {{\n{kernels}"


FORWARD, BACKWARD = (
    "const {0}*, const {0}*, int64_t, double*",
    ("const {0}*, const {0}*, const {0}*, double, int64_t, {0}*"),
)
KERNELS = {
    "kl_div": {"sum_of_terms": FORWARD, "gradient_of_predictions": BACKWARD},
    "mse": {"sum_of_squares": FORWARD, "scaled_difference": BACKWARD},
    "smooth_l1": {"sum_of_losses": FORWARD, "scaled_clamped_difference": BACKWARD},
}


def test_cuda_kernels_compile_without_spills(problem: str, tmp_path: Path) -> None:
    instances = [
        f"template __global__ void {kernel}<{dtype}, {lanes}>({arguments.format(dtype)});"
        for kernel, arguments in KERNELS[problem].items()
        for dtype, lanes in (("float", 4), ("float", 1), ("__half", 8))
    ]
    source = tmp_path / "kernels.cu"
    source.write_text("\n".join([device_code(problem), *instances, "}  // namespace"]))
    done = subprocess.run(
        [nvcc(), "-arch=sm_90", "-std=c++17", "-O3", "-cubin", "-Xptxas", "-v", source.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    spills = re.findall(r"(\d+) bytes spill", done.stderr)
    assert len(spills) >= 2 * len(instances)
    assert set(spills) == {"0"}


# --- CUDA on a GPU -----------------------------------------------------------------------------

GPU = torch.device("cuda")
CUDA_DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str
)


@pytest.mark.gpu
@CUDA_DTYPES
@pytest.mark.parametrize("size", SMALL_SIZES)
def test_cuda_is_as_accurate_as_eager(
    problem: str, cuda: Function, size: str, dtype: torch.dtype
) -> None:
    for seed in range(3):
        inputs = instance(problem, size, dtype, GPU).inputs(Draw(seed=seed))
        assert_as_accurate_as_eager(problem, cuda, *inputs)


@pytest.mark.gpu
@CUDA_DTYPES
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cuda_takes_any_layout(
    problem: str, cuda: Function, layout: str, dtype: torch.dtype
) -> None:
    predictions, targets = pair(problem, (370, 531), GPU, dtype)
    assert_right(problem, cuda, LAYOUTS[layout](predictions), LAYOUTS[layout](targets))
    assert_right(problem, cuda, LAYOUTS[layout](predictions), targets)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape", [(1,), (1, 1), (7,), (2, 3, 5), (1, 4096), (4097,), (3, 2**20 + 1)], ids=str
)
def test_cuda_takes_any_shape(problem: str, cuda: Function, shape: tuple[int, ...]) -> None:
    assert_right(problem, cuda, *pair(problem, shape, GPU))


@pytest.mark.gpu
def test_cuda_of_nothing_is_nan_as_in_pytorch(problem: str, cuda: Function) -> None:
    assert_right(problem, cuda, torch.empty(0, 3, device=GPU), torch.empty(0, 3, device=GPU))


@pytest.mark.gpu
@CUDA_DTYPES
def test_cuda_gives_the_same_bits_every_time(
    problem: str, cuda: Function, dtype: torch.dtype
) -> None:
    inputs = instance(problem, "smoke", dtype, GPU).inputs(Draw(seed=1))
    first = run(cuda, *inputs)
    for _ in range(50):
        assert all(torch.equal(a, b) for a, b in zip(first, run(cuda, *inputs), strict=True))


@pytest.mark.gpu
def test_cuda_runs_on_the_current_stream(problem: str, cuda: Function) -> None:
    """Inputs that are still to be written on a side stream when the solution is called."""
    predictions, targets = pair(problem, (1024, 1024), GPU)
    late = torch.zeros_like(predictions)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(200_000_000)  # type: ignore[no-untyped-call]
        late.copy_(predictions)
        results = run(cuda, late, targets)
        torch.cuda.current_stream().synchronize()
    expected = run(cuda, predictions, targets)
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


@pytest.mark.gpu
def test_cuda_never_waits_for_the_device(problem: str, cuda: Function) -> None:
    predictions, targets = pair(problem, (64, 64), GPU)
    predictions.requires_grad_()
    cuda(predictions, targets).backward()  # type: ignore[no-untyped-call]
    torch.cuda.set_sync_debug_mode("error")
    try:
        cuda(predictions, targets).backward()  # type: ignore[no-untyped-call]
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_cuda_takes_more_than_two_to_the_31_elements(problem: str, cuda: Function) -> None:
    """All terms are 0 but for the last row, which lies past 2^31 elements."""
    rows, columns = 2**16 + 1, 2**15
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GiB of GPU memory")
    targets = torch.ones(rows, columns, dtype=torch.bfloat16, device=GPU)
    predictions = torch.ones_like(targets)
    predictions[-1] = 4
    elements = rows * columns
    output, derivative, elsewhere = {
        "kl_div": (-columns * math.log(4) / rows, -0.25 / rows, -1 / rows),
        "mse": (9 * columns / elements, 6 / elements, 0.0),
        "smooth_l1": (2.5 * columns / elements, 1 / elements, 0.0),
    }[problem]
    predictions.requires_grad_()
    result = cuda(predictions, targets)
    (gradient,) = torch.autograd.grad(result, predictions)
    assert result.item() == pytest.approx(output, rel=2**-8)
    for row, value in ((-1, derivative), (-2, elsewhere), (0, elsewhere)):
        expected = torch.full((columns,), value, device=GPU)
        torch.testing.assert_close(gradient[row].float(), expected, rtol=2**-8, atol=0)


#: Prints what a solution says of four pairs of inputs that it does not take.
COMPLAINTS = """
import importlib.util, json, sys, torch
spec = importlib.util.spec_from_file_location(sys.argv[1], sys.argv[2])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
model = module.ModelNew()
x = torch.ones(4, 6, device="cuda:0")
said = []
for pair in ((x.double(), x.double()), (x, x.half()), (x, x.t()), (x, x.cpu())):
    try:
        model(*pair)
    except RuntimeError as error:
        said.append(str(error))
print(json.dumps(said))
"""


@pytest.mark.gpu
def test_cuda_says_what_it_does_not_support(problem: str, cuda: Function) -> None:
    """In a process of its own: printing a number through a C++ stream was seen to crash it."""
    path = ROOT / "solutions" / problem / "cuda.py"
    child = subprocess.run(
        [sys.executable, "-c", COMPLAINTS, f"{problem}_cuda", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    expected = (
        "float32, .* are supported, got Double",
        ".* same dtype, got Float and Half",
        r".* same shape, got \[4, 6\] and \[6, 4\]",
        ".* same CUDA device, got cuda:0 and cpu",
    )
    for text, said in zip(expected, json.loads(child.stdout), strict=True):
        assert re.search(f"{problem}: {text}", said)


@pytest.mark.gpu
def test_cuda_keeps_only_inputs_and_gradient(problem: str, cuda: Function) -> None:
    predictions, targets = pair(problem, (4096, 4096), GPU)
    predictions.requires_grad_()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    output = cuda(predictions, targets)
    (gradient,) = torch.autograd.grad(output, predictions)
    size = gradient.numel() * gradient.element_size()
    assert torch.cuda.max_memory_allocated() - before <= size + 2**16


@pytest.mark.gpu
def test_cuda_keeps_nan(problem: str, cuda: Function) -> None:
    assert_nan_stays(problem, cuda, GPU)


@pytest.mark.gpu
def test_cuda_kl_div_takes_zeros_and_other_values_that_need_care(
    build: Callable[[str, str], ModuleType],
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    assert_careful(build("kl_div", "cuda").ModelNew(), GPU)


@pytest.mark.gpu
def test_cuda_kl_div_logarithm_is_right_for_every_ratio(
    build: Callable[[str, str], ModuleType],
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    assert_log_ratio(build("kl_div", "cuda").ModelNew(), GPU)
