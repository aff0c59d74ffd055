"""Which kernels ran, and whose they are.

On CUDA one profiled pass lists the kernels; those whose name stands in a library that the
solution built, or that triton compiled for it, are its own. On a CPU the calls into built
modules are counted, and timed. Both are claims: they label a result, they do not prove one.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

_clock = time.perf_counter_ns  # bound before any solution is imported
#: Kernels by these prefixes are PyTorch's or a vendor library's.
LIBRARY_KERNEL = re.compile(
    r"^(void )?(at::|at_cuda|c10::|cublas|cutlass|cudnn|cub::|thrust::|nccl|sm\d\d_|ampere_|"
    r"volta_|turing_|hopper_|gemm|gemv|Memset|Memcpy|fft|regular_fft|vector_fft|flash_fwd|"
    r"pytorch_flash|fmha|implicit_convolve|nvjet|splitK|dot_kernel|reduce_1Block|elementwise_)"
)


def cuda_kernels(call: Callable[[], Any]) -> dict[str, float]:
    """Kernel name -> GPU time in microseconds over one `call`."""
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        call()
        torch.cuda.synchronize()
    times: dict[str, float] = {}
    for event in record.events() or []:
        if event.device_type == DeviceType.CUDA:
            times[event.name] = times.get(event.name, 0.0) + event.device_time
    return times


def own_share(kernels: dict[str, float], libraries: list[Path], triton: set[str]) -> float | None:
    """Share of GPU time in kernels that the solution brought; None where no kernel ran."""
    total = sum(t for name, t in kernels.items() if not name.startswith(("Memset", "Memcpy")))
    if not total:
        return None
    images = [path.read_bytes() for path in libraries if path.exists()]
    own = sum(t for name, t in kernels.items() if _is_own(name, images, triton))
    return own / total


def _is_own(name: str, images: list[bytes], triton: set[str]) -> bool:
    if name in triton:
        return True
    if LIBRARY_KERNEL.match(name):
        return False
    bare = bare_name(name)
    return bool(bare) and any(bare.encode() in image for image in images)


def bare_name(kernel: str) -> str:
    """The function's own name, which a mangled symbol holds as it is:
    `void (anonymous namespace)::scale<float>(float*)` -> `scale`."""
    plain = kernel.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    return re.sub(r"[<(].*", "", plain).split("::")[-1].split(" ")[-1]


def triton_kernels(module_names: list[str]) -> set[str]:
    """Names of the triton kernels defined in the solution's module."""
    names: set[str] = set()
    for module_name in module_names:
        for name, value in vars(sys.modules[module_name]).items():
            while value is not None and not isinstance(value, type):
                if type(value).__name__ == "JITFunction":
                    names.add(getattr(value, "__name__", name))
                    break
                value = getattr(value, "fn", None)  # autotuner and heuristics wrap the kernel
    return names


def native_calls(call: Callable[[], Any], modules: list[Any]) -> tuple[int, float | None]:
    """How often one `call` entered a function of the built `modules`, on any Python thread; and
    what share of the time in native functions passed there, None where there was none. By the wall
    clock: threads of its own work while it waits for them.
    """
    functions = {
        id(f) for m in modules for f in vars(m).values() if callable(f) and not isinstance(f, type)
    }
    count = own_ns = total_ns = 0
    stacks: dict[int, list[tuple[bool, int]]] = {}  # by thread: whether it is own, and its begin

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count, own_ns, total_ns
        stack = stacks.setdefault(threading.get_ident(), [])
        if event == "c_call":
            own = id(argument) in functions
            count += own
            stack.append((own, _clock()))
        elif event in ("c_return", "c_exception") and stack:
            own, began = stack.pop()
            took = _clock() - began
            own_ns += took if own and not any(outer for outer, _ in stack) else 0
            total_ns += 0 if stack else took

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count, min(1.0, own_ns / total_ns) if total_ns else None
