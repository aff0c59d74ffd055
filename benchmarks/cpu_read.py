"""How near the shipped C++ solutions come to a plain read of the same bytes, on this CPU.

    python -m benchmarks.cpu_read --output results/benchmarks/cpu_read_NAME.csv

For each problem with a C++ solution, in turns: its forward, and the fastest of a few plain
multi-threaded reads of the same inputs (`sum`, `amax`, `dot`), all of them PyTorch's. The share of
a turn is the fastest read's time over the solution's; the median over turns is told. On a machine
that others use too, look at the range first.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness import ROOT, catalog
from harness.shared.problem import Draw, Instance
from harness.worker import loading

SIZES = {"kl_div": "full", "mse": "medium", "smooth_l1": "medium"}
FIELDS = ("problem", "size", "mib", "threads", "read_ms", "forward_ms", "share", "low", "high")


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def reads(tensors: list[torch.Tensor]) -> list[Callable[[], object]]:
    """Plain reads of all that the tensors hold."""
    flat = [tensor.view(-1) for tensor in tensors]
    found: list[Callable[[], object]] = [
        lambda: [t.sum() for t in flat],
        lambda: [t.amax() for t in flat],
        lambda: [t.view(-1, 1 << 14).sum(1) for t in flat],
    ]
    if len(flat) == 2:
        found.append(lambda: torch.dot(*flat))
    return found


def measure(name: str, size: str, turns: int) -> dict[str, Any]:
    """The line of one problem."""
    problem = catalog.load_problem(name, ROOT / "problems")
    solution = catalog.load_solution("cpp", ROOT / "solutions", problem)
    instance = Instance(
        source=problem.source,
        path=problem.path,
        size=size,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    with tempfile.TemporaryDirectory() as folder:
        made = loading.import_solution(solution.source, Path(folder), "cpp.py")
    model = instance.construct(made, 1)
    inputs: Any = instance.inputs(Draw(seed=1))
    plain = reads(inputs)

    def forward() -> object:
        return model(*inputs)

    with torch.no_grad():
        for call in (*plain, forward):
            call()
        took = [(min(map(seconds, plain)), seconds(forward)) for _ in range(turns)]
    shares = sorted(read / forward for read, forward in took)
    return {
        "problem": name,
        "size": size,
        "mib": sum(t.nbytes for t in inputs) >> 20,
        "threads": torch.get_num_threads(),
        "read_ms": 1e3 * statistics.median(read for read, _ in took),
        "forward_ms": 1e3 * statistics.median(forward for _, forward in took),
        "share": statistics.median(shares),
        "low": shares[0],
        "high": shares[-1],
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    with asked.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for name, size in SIZES.items():
            line = measure(name, size, asked.turns)
            writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in line.items()})
            print(
                f"{name}: {line['share']:.1%} of a plain read ({line['low']:.1%} to "
                f"{line['high']:.1%}), {line['forward_ms']:.1f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
