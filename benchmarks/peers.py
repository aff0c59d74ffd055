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

    def timed(f: Callable[[], Any]) -> float:
        torch.cuda.synchronize()
        scratch.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        f()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    return _ratio_of_means(pair, call_ms, timed)


def clock_loop(pair: Pair, call_ms: float) -> float:
    """The plain loop for a CPU: warm up, then `perf_counter` around each call; means."""

    def timed(f: Callable[[], Any]) -> float:
        began = time.perf_counter()
        f()
        return time.perf_counter() - began

    return _ratio_of_means(pair, call_ms, timed)


def _ratio_of_means(
    pair: Pair, call_ms: float, timed: Callable[[Callable[[], Any]], float]
) -> float:
    means = []
    for f in pair:
        for _ in range(3):
            f()
        means.append(statistics.fmean(timed(f) for _ in range(_trials(call_ms))))
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
