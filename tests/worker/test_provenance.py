"""Whose kernels ran: calls into built modules on a CPU, names in built libraries on a GPU."""

from __future__ import annotations

import functools
import math
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from harness.worker import libraries, provenance
from harness.worker.provenance import bare_name, native_calls, own_share, triton_kernels


def test_calls_into_built_modules_are_counted_and_others_are_not() -> None:
    assert native_calls(lambda: [math.sqrt(4), math.sin(1), len("x")], [math])[0] == 2
    assert native_calls(lambda: [len("x"), sorted([1])], [math]) == (0, 0.0)
    assert native_calls(lambda: math.sqrt(4), []) == (0, 0.0)
    assert native_calls(lambda: None, [math]) == (0, None)


def test_the_share_is_of_the_time_in_native_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands still but for `spend`: no other process takes part in it."""
    now_ns = [0]
    monkeypatch.setattr(provenance, "_clock", lambda: now_ns[0])

    def spend(ns: int) -> int:
        now_ns[0] += ns
        return ns

    def own(ns: int) -> None:
        functools.reduce(lambda _, ns: spend(ns), [0, ns])

    def librarys(work: Callable[[int], object], ns: int) -> None:
        max([ns], key=lambda ns: work(ns) or ns)

    def share(call: Callable[[], object]) -> float | None:
        return native_calls(call, [functools])[1]

    assert share(lambda: (own(1), librarys(spend, 99))) == 0.01
    assert share(lambda: (own(99), librarys(spend, 1))) == 0.99
    assert share(lambda: (own(99), librarys(own, 1))) == 1.0, "also within a native one"
    nested = functools.partial(functools.reduce, lambda _, ns: own(ns), [0, 50])
    assert share(lambda: (nested(), librarys(spend, 50))) == 0.5, "no time counts twice"
    assert share(lambda: (own(1), spend(99))) == 1.0, "Python's own time is nobody's"


def test_a_function_that_waits_for_its_own_threads_is_at_work() -> None:
    def waits() -> None:
        time.sleep(0.05)
        zlib.crc32(b"x")

    assert (native_calls(waits, [time])[1] or 0.0) > 0.9


def test_calls_on_other_threads_count_as_well() -> None:
    def call() -> None:
        thread = threading.Thread(target=lambda: math.sqrt(4))
        thread.start()
        thread.join()

    assert native_calls(call, [math])[0] == 1


def test_a_function_that_a_solution_keeps_by_another_name_counts() -> None:
    kept = math.sqrt
    assert native_calls(lambda: kept(4), [math])[0] == 1


def test_the_profiler_is_off_again_also_after_an_error() -> None:
    def broken() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        native_calls(broken, [math])
    assert sys.getprofile() is None


def test_calls_of_operators_that_a_library_has_registered_are_counted() -> None:
    known = libraries.operators()
    library = torch.library.Library("provenance_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2 * x, "CPU")
    own = [libraries.calls_of(libraries.operators() - known)]
    x = torch.ones(3)
    assert native_calls(lambda: torch.ops.provenance_test.twice(x), own)[0] == 1
    assert native_calls(lambda: torch.ops.provenance_test.twice.default(x), own)[0] == 1
    assert native_calls(lambda: torch.ops.aten.relu(x), own)[0] == 0


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("scale", "scale"),
        ("scale(float*, int)", "scale"),
        ("void scale<float, 4>(float const*, long)", "scale"),
        ("void (anonymous namespace)::scale<float>(float*)", "scale"),
        ("void ns::(anonymous namespace)::scale<__half>(__half*)", "scale"),
        ("ns::inner::scale", "scale"),
    ],
)
def test_the_bare_name_of_a_kernel(kernel: str, name: str) -> None:
    assert bare_name(kernel) == name


def test_kernels_named_in_a_built_library_are_the_solutions_own(tmp_path: Path) -> None:
    library = tmp_path / "x.so"
    library.write_bytes(b"\x7fELF\0_ZN12_GLOBAL__N_15scaleIfEEvPfi\0")
    kernels = {
        "void (anonymous namespace)::scale<float>(float*, int)": 30.0,
        "void at::native::vectorized_elementwise_kernel<4, float>": 10.0,
        "Memset (Device)": 500.0,
    }
    assert own_share(kernels, [library], set()) == 0.75
    assert own_share(kernels, [], set()) == 0.0
    assert own_share(kernels, [tmp_path / "gone.so"], set()) == 0.0


def test_a_librarys_kernel_is_not_own_even_if_the_name_occurs(tmp_path: Path) -> None:
    library = tmp_path / "x.so"
    library.write_bytes(b"vectorized_elementwise_kernel gemm cublasGemm")
    kernels = {"void at::native::vectorized_elementwise_kernel<4>": 1.0, "cublasGemm": 1.0}
    assert own_share(kernels, [library], set()) == 0.0


def test_triton_kernels_are_own_by_name() -> None:
    assert own_share({"fused_kernel": 3.0, "at::fill": 1.0}, [], {"fused_kernel"}) == 0.75


def test_no_kernel_at_all_has_no_share() -> None:
    assert own_share({}, [], set()) is None
    assert own_share({"Memcpy DtoD": 5.0}, [], set()) is None


def test_triton_kernels_are_found_under_autotuners(monkeypatch: pytest.MonkeyPatch) -> None:
    class JITFunction:
        __name__ = "inner"

    module = ModuleType("fake_solution")
    module.tuned = SimpleNamespace(fn=SimpleNamespace(fn=JITFunction()))  # type: ignore[attr-defined]
    module.plain = len  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_solution", module)
    assert triton_kernels(["fake_solution"]) == {"inner"}
