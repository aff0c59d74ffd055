"""How others time two functions: the ratio of their times, by each method, for comparison.

Each is used as its documentation shows, one side wholly before the other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

Pair = tuple[Callable[[], Any], Callable[[], Any]]
LOOP_TRIALS = ((1.0, 100), (10.0, 20), (1e9, 5))  # (up to so many ms a call, trials)


def do_bench(pair: Pair, call_ms: float) -> float:
    """`triton.testing.do_bench`, medians. CUDA only."""
    from triton.testing import do_bench as bench

    a, b = (bench(f, warmup=5, rep=50, return_mode="median") for f in pair)
    return float(a / b)


def torch_benchmark(pair: Pair, call_ms: float) -> float:
    """`torch.utils.benchmark`, blocked autorange, medians."""
    from torch.utils.benchmark import Timer

    a, b = (
        Timer("f()", globals={"f": f}).blocked_autorange(min_run_time=0.05).median for f in pair
    )
    return a / b


def event_loop(pair: Pair, call_ms: float) -> float:
    """A plain loop: warm up, then per trial clear a buffer, record, call, record, wait; means."""
    scratch = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    means = []
    for f in pair:
        for _ in range(3):
            f()
        times = []
        for _ in range(_trials(call_ms)):
            torch.cuda.synchronize()
            scratch.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            f()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        means.append(statistics.fmean(times))
    return means[0] / means[1]


def clock_loop(pair: Pair, call_ms: float) -> float:
    """The plain loop for a CPU: warm up, then `perf_counter` around each call; means."""
    means = []
    for f in pair:
        for _ in range(3):
            f()
        times = []
        for _ in range(_trials(call_ms)):
            began = time.perf_counter()
            f()
            times.append(time.perf_counter() - began)
        means.append(statistics.fmean(times))
    return means[0] / means[1]


def _trials(call_ms: float) -> int:
    return next(trials for limit, trials in LOOP_TRIALS if call_ms <= limit)


PEERS: dict[str, dict[str, Callable[[Pair, float], float]]] = {
    "cuda": {
        "do_bench": do_bench,
        "torch.utils.benchmark": torch_benchmark,
        "event loop": event_loop,
    },
    "cpu": {"torch.utils.benchmark": torch_benchmark, "clock loop": clock_loop},
}
