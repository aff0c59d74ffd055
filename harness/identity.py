"""The reference as its own solution: what an evaluation must pass, at a speedup of 1.00."""

from __future__ import annotations

import ast
import hashlib

from harness.records import Problem, Row, Solution
from harness.shared import constants
from harness.syntax import DEVICE_TYPES

NAME = "self_check"
ROUNDING = 0.005  # an interval that ends at 0.995 holds 1.00


def solution(problem: Problem, size: str) -> Solution:
    """`problem` at `size`, its Model called ModelNew too. Raises `ProblemError`, `RequestError`."""
    tree = constants.at_size(problem.source, problem.path, size)
    source = f"{ast.unparse(tree)}\n\nModelNew = Model\n"
    return Solution(
        name=NAME,
        problem=problem.name,
        path=f"{NAME}.py",
        source=source,
        digest=hashlib.sha256(source.encode()).hexdigest()[:16],
        devices=DEVICE_TYPES,
    )


def complaints(row: Row) -> list[str]:
    """The modes of a passed row whose interval does not hold 1.00, with it."""
    found = []
    for mode, result in row.modes.items():
        low, high = result.low or result.speedup, result.high or result.speedup
        if low is None or high is None:
            continue
        if low > 1 + ROUNDING or high < 1 - ROUNDING:
            found.append(f"{mode} is {result.speedup:.3f} times as fast ({low:.3f} to {high:.3f})")
    return found
