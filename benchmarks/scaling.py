"""Solutions per hour on 1 to N devices of one machine, and what a Ray actor costs on top.

    python -m benchmarks.scaling --devices 0,1 --output results/benchmarks/scaling_NAME.csv
    python -m benchmarks.scaling --devices cpu,cpu --count 20 --ray

Evaluates a generated set (`--count` solutions of three problems, half of them with a build of
their own) on the first 1, 2, 4, ... of the devices, each time with an empty build cache, and
compares verdicts. Wrong ones and ones that do not compile are among them. With `--ray`, once more
on a Ray of this machine with as many actors: without it and with it, per evaluation.

Efficiency is N-device throughput over N times that of one. Times are of the whole command, the
start of judges included.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from harness import config
from harness.config import Settings
from harness.fleet import cluster, host
from harness.records import Row
from harness.run import Request, Silent

PROBLEM = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.{function}(x * y)


def get_inputs():
    return [torch.randn({rows}, {columns}), torch.randn({rows}, {columns})]
"""
FUNCTIONS = ("tanh", "sigmoid", "relu")

PYTHON = """
import torch

VARIANT = {number}


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return torch.{function}(x.mul(y)){mistake}
"""

#: A forward by a kernel of its own; the backward is PyTorch's.
BUILT = '''
import torch
from torch.utils.cpp_extension import load_inline

PROTOTYPE = "torch::Tensor product(torch::Tensor x, torch::Tensor y);"
{kind} = r"""
{source}
"""
module = load_inline(name="product{number}", {arguments}, functions=["product"])


class Product(torch.autograd.Function):
    @staticmethod
    def forward(context, x, y):
        context.save_for_backward(x, y)
        return module.product(x, y)

    @staticmethod
    def backward(context, grad):
        x, y = context.saved_tensors
        return grad * y, grad * x


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return torch.{function}(Product.apply(x, y)){mistake}
'''

CPP = """
#include <torch/extension.h>
torch::Tensor product(torch::Tensor x, torch::Tensor y) {{
  auto a = x.contiguous(), b = y.contiguous();
  auto out = torch::empty_like(a);
  const float *p = a.data_ptr<float>(), *q = b.data_ptr<float>();
  float* r = out.data_ptr<float>();
  const int64_t n = a.numel(); // variant {number}
  for (int64_t i = 0; i < n; ++i) r[i] = p[i] * q[i]{end}
  return out;
}}
"""

CUDA = """
#include <torch/types.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void kernel(const float* p, const float* q, float* r, int64_t n) {{
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;  // variant {number}
  if (i < n) r[i] = p[i] * q[i]{end}
}}
torch::Tensor product(torch::Tensor x, torch::Tensor y) {{
  auto a = x.contiguous(), b = y.contiguous();
  auto out = torch::empty_like(a);
  const int64_t n = a.numel();
  kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}}
"""


def write_set(folder: Path, count: int, *, cuda: bool) -> None:
    """`count` solutions in a house of three problems: every second with a build; of each ten
    one is wrong, and of those with a build one in ten does not compile."""
    rows, columns = (4096, 8192) if cuda else (64, 1024)
    for function in FUNCTIONS:
        (folder / "problems").mkdir(parents=True, exist_ok=True)
        text = PROBLEM.format(function=function, rows=rows, columns=columns)
        (folder / "problems" / f"product_{function}.py").write_text(text)
    for number in range(count):
        function = FUNCTIONS[number % len(FUNCTIONS)]
        values = {"number": number, "function": function, "mistake": " * 1.5" * (number % 10 == 3)}
        text = _built(values, number, cuda=cuda) if number % 2 else PYTHON.format(**values)
        file = folder / "solutions" / f"product_{function}" / f"s{number:04}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _built(values: dict[str, Any], number: int, *, cuda: bool) -> str:
    end = "" if number % 20 == 7 else ";"  # "": the compiler refuses it
    source = (CUDA if cuda else CPP).format(number=number, end=end)
    kind = "CUDA" if cuda else "CPP"
    given = "PROTOTYPE, cuda_sources=CUDA" if cuda else "CPP"
    return BUILT.format(
        **values, kind=kind, source=source.strip(), arguments=f"cpp_sources={given}"
    )


@dataclasses.dataclass
class Meter(Silent):
    """An observer that prints rows as they come, and when the first one came."""

    began: float = dataclasses.field(default_factory=time.monotonic)
    first_s: float | None = None

    def note(self, text: str) -> None:
        print(f"\r{time.monotonic() - self.began:6.1f} s: {text}", end="", flush=True)

    def warn(self, text: str) -> None:
        print("\nwarning:", text, flush=True)

    def row(self, row: Row) -> None:
        self.first_s = self.first_s or time.monotonic() - self.began


def measure(request: Request, devices: str, *, ray: bool = False) -> tuple[dict[str, Any], Any]:
    """One run of the set with an empty build cache: its line of the table, its verdicts."""
    count = len(devices.split(","))
    meter = Meter()
    if ray:
        os.environ["XDG_CACHE_HOME"] = str(request.cache_dir)
        rows = cluster.execute(request, None, meter)
    else:
        rows = host.execute(request, devices, meter)
    wall_s = time.monotonic() - meter.began
    statuses = Counter(row.verdict.status.value for row in rows)
    print()
    line = {
        "device": rows[0].environment.device_name,
        "devices": count,
        "ray": ray,
        "host_cores": len(os.sched_getaffinity(0)),
        "torch": torch.__version__,
        "solutions": len(rows),
        "wall_s": wall_s,
        "first_row_s": meter.first_s,
        "solutions_per_hour": 3600 * len(rows) / wall_s,
        "busy_share": sum(row.total_s or 0.0 for row in rows) / (count * wall_s),
        "verdicts": " ".join(f"{name}={n}" for name, n in sorted(statuses.items())),
        "harness_errors": statuses["harness_error"],
    }
    return line, {(row.problem, row.solution): row.verdict.status.value for row in rows}


def main() -> int:
    """The table; exit status 1 where verdicts differ."""
    options = _options()
    names = options.devices.split(",")
    counts = options.numbers or [2**n for n in range(int(math.log2(len(names))) + 1)]
    cuda = not names[0].startswith("cpu")
    overrides = {"device": "cuda" if cuda else "cpu", "size": "full"}
    settings: Settings = config.load(options.config, overrides)
    lines: list[dict[str, Any]] = []
    found: list[dict[Any, str]] = []
    with tempfile.TemporaryDirectory(prefix="scaling-") as folder:
        house = Path(folder)
        write_set(house, options.count, cuda=cuda)
        runs = [(n, False) for n in counts] + [(max(counts), True)] * options.ray
        for number, (count, ray) in enumerate(runs):
            request = Request(
                settings=settings,
                problem_dir=house / "problems",
                solution_dir=house / "solutions",
                results_dir=house / f"results{number}",
                cache_dir=house / f"cache{number}",
            )
            print(f"{count} device(s){', through Ray' * ray}")
            line, verdicts = measure(request, ",".join(names[:count]), ray=ray)
            lines.append(line)
            found.append(verdicts)
            _write(lines, options.output)  # now: a later run may be cut short
            print(f"{line['solutions']} rows in {line['wall_s']:.1f} s: {line['verdicts']}")
    print(table(lines).T.to_string(header=False))
    return _differing(lines, found)


def table(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """The runs so far, each beside the first."""
    one = lines[0]
    for line in lines:
        line["speedup"] = line["solutions_per_hour"] / one["solutions_per_hour"]
        line["efficiency"] = line["speedup"] * one["devices"] / line["devices"]
        alike = [o for o in lines if o["devices"] == line["devices"] and not o["ray"]]
        # Of one device's time: N devices work side by side.
        more_s = (line["wall_s"] - alike[0]["wall_s"]) * line["devices"] / line["solutions"]
        line["ray_overhead_s"] = more_s if line["ray"] else None
    frame: pd.DataFrame = pd.DataFrame(lines)
    return frame


def _write(lines: list[dict[str, Any]], output: Path | None) -> None:
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        table(lines).to_csv(output, index=False)


def _differing(lines: list[dict[str, Any]], found: list[dict[Any, str]]) -> int:
    """Name every verdict that differs from the first run's; the exit status."""
    differing = [
        f"{problem}/{solution}: {first}, with {lines[n]['devices']} device(s) {verdicts[key]}"
        for n, verdicts in enumerate(found)
        for key, first in found[0].items()
        for problem, solution in [key]
        if verdicts[key] != first
    ]
    print("\n".join(differing) or "verdicts: the same in all runs")
    return 1 if differing else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="cpu,cpu", help="0,1,... or cpu,cpu,...")
    parser.add_argument("--numbers", type=lambda text: [int(n) for n in text.split(",")],
                        help="how many of them, one run each: 1,2,4")  # fmt: skip
    parser.add_argument("--count", type=int, default=100, help="solutions in the set")
    parser.add_argument("--config", default="default", help="preset of configs/, or a file")
    parser.add_argument("--ray", action="store_true", help="once more through Ray")
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
