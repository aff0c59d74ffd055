"""Tries Triton solutions without a GPU; run by test_triton.py in processes of its own.

`interpret`: Triton's interpreter runs the kernels on CPU tensors (TRITON_INTERPRET has to be set
before triton is imported). `compile`: a driver that only names its target stands in for a GPU's,
and launches end with the compiled kernel. Prints one JSON object: case -> what is wrong, or "".
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from harness.config import Settings  # noqa: E402
from harness.judge.checking.rules import Rules  # noqa: E402
from harness.judge.reference import Reference  # noqa: E402
from harness.shared.binding import Binding  # noqa: E402
from harness.shared.draws import Draw, GradDraw  # noqa: E402
from harness.shared.player import Player  # noqa: E402
from harness.shared.problem import Instance  # noqa: E402
from harness.shared.trial import Call, Trial  # noqa: E402

#: dtype, layout and variation. Of large values what is small beside a maximum loses its digits.
CASES = (
    ("float32", "strided", "as_given"),
    ("float32", "contiguous", "large"),
    ("bfloat16", "contiguous", "as_given"),
)
IN_PLACE = ("adamw_step",)  # refuses what is not contiguous: a copy would not be changed


def load(problem: str) -> ModuleType:
    path = ROOT / "solutions" / problem / "triton_kernels.py"
    spec = importlib.util.spec_from_file_location(f"{problem}_triton", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def instance(problem: str, size: str, dtype: str, device: str = "cpu") -> Instance:
    path = ROOT / "problems" / f"{problem}.py"
    return Instance(
        source=path.read_text(),
        path=str(path),
        size=size,
        dtype=getattr(torch, dtype),
        device=torch.device(device),
    )


def judged(problem: str, dtype: str, layout: str, variation: str) -> str:
    """One call and its backward, by the rules that solutions are judged by."""
    given = instance(problem, "odd", dtype)
    reference = Reference(given, 1)
    if variation not in ("as_given", *given.variations):
        return ""
    layout = "contiguous" if problem in IN_PLACE else layout
    player, trial = made_ready(problem, reference, layout, variation)
    (got,) = player.play(trial).results
    expected = reference.expected(trial, oracle=True)
    assert expected.oracle is not None
    (wanted,), (true,) = expected.played.results, expected.oracle.results
    rules = Rules.of(given, Settings(dtype=dtype))
    checks = [
        *rules.output(got.output, wanted.output, true.output),
        *rules.grads(got, wanted, true),
        *rules.untouched(got, wanted, mutates=True),
    ]
    return "; ".join(check.problem for check in checks if check.problem)


def made_ready(
    problem: str, reference: Reference, layout: str, variation: str = "as_given"
) -> tuple[Player, Trial]:
    """The solution with the reference's weights, and a call of it with a backward."""
    solution = reference.instance.construct(load(problem).ModelNew, 1)
    solution.load_state_dict(reference.model.state_dict())
    grad = GradDraw(seed=2) if reference.differentiated[0] else None
    draw = Draw(seed=1, layout=layout, variation=variation)
    trial = Trial(calls=(Call(draw=draw, grad=grad),))
    return Player(instance=reference.instance, binding=Binding.to_itself(solution)), trial


def refusal(problem: str) -> str:
    """A dtype that is not supported gets a `TypeError` that names the problem and the dtypes."""
    given = instance(problem, "odd", "float64")
    solution = given.construct(load(problem).ModelNew, 1)
    try:
        solution(*given.inputs(Draw(seed=1)))
    except TypeError as error:
        text = str(error)
        told = text.startswith(f"{problem}: ") and "bfloat16" in text and "torch.float64" in text
        return "" if told else text
    return "float64 was taken"


def interpreted(problems: list[str]) -> Iterator[tuple[str, str]]:
    for problem in problems:
        for case in CASES:
            yield " ".join((problem, *case)), judged(problem, *case)
        yield f"{problem} float64 refused", refusal(problem)


def compiled(problems: list[str]) -> Iterator[tuple[str, str]]:
    """Every kernel for an H100 in float32. At the size `smoke`, whose tensors vectors fit, some
    instruction must move 16 bytes at once."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    class Target:
        """As much of a driver as a compilation asks for."""

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", 90, 32)

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int = 0) -> int:
            return 0

    codes: list[str] = []

    def launch(kernel: Any, grid: Any) -> Any:
        def compile_only(*arguments: Any, **options: Any) -> None:
            codes.append(kernel.warmup(*arguments, grid=grid, **options).asm["ptx"])

        return compile_only

    driver.set_active(Target())
    JITFunction.__getitem__ = launch
    for problem in problems:
        codes.clear()
        given = instance(problem, "smoke", "float32")
        solution = given.construct(load(problem).ModelNew, 1)
        inputs = given.inputs(Draw(seed=1))
        leaves = list(given.leaves(inputs).values())
        for leaf in leaves:
            leaf.requires_grad_()
        output = solution(*inputs)
        outputs = list(output) if isinstance(output, tuple) else [output]
        if leaves:
            grads = [torch.ones_like(t) for t in outputs]
            torch.autograd.grad(outputs, [*leaves, *solution.parameters()], grads)
        wide = any(".v4" in code or ".v2" in code for code in codes)
        yield f"{problem} compiled", "" if wide else f"{len(codes)} kernels without vectors"


if __name__ == "__main__":
    torch.set_num_threads(1)
    mode, *names = sys.argv[1:]
    found = dict({"interpret": interpreted, "compile": compiled}[mode](names))
    print(json.dumps(found))
