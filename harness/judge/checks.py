"""Forward and backward of a solution against the reference, trial by trial.

The worker answers first; then the expected results are computed, compared and dropped.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import torch

from harness import problem as problem_files
from harness.config import Settings
from harness.errors import ProblemError
from harness.judge import compare
from harness.judge.reference import Expected, Reference
from harness.judge.sandbox import Worker, claimed
from harness.problem import Draw
from harness.records import Check

OTHER_SIZE = "odd"  # checked besides the graded size, where a problem has it
OTHER_SIZE_TRIALS = 2


def sizes_to_check(source: str, graded: str, trials: int) -> list[tuple[str, int]]:
    """(size, trials): the problem's odd size first, where it has one, then the graded one."""
    other = [(OTHER_SIZE, min(OTHER_SIZE_TRIALS, trials))]
    known = problem_files.sizes(source)
    return [*(other if OTHER_SIZE in known and graded != OTHER_SIZE else []), (graded, trials)]


def require_comparable(reference: Reference) -> None:
    """Raises `ProblemError` where nothing of what the reference returns can be compared."""
    path = reference.instance.path
    output = reference.forward(Draw(seed=1), oracle=False).output
    if not any(tensor.numel() for _, tensor in problem_files.walk_tensors(output, "")):
        raise ProblemError("Model returns no tensor that holds anything", path=path)
    try:
        compare.compare(output, output, root="output")
    except ValueError as error:
        raise ProblemError(str(error), path=path) from error


@dataclass(kw_only=True)
class Judged:
    """A worker's solution under examination."""

    worker: Worker
    settings: Settings
    reference: Reference
    byte_limit: int
    resized: bool = False
    worst_error_ratio: float | None = None
    flags: list[str] = field(default_factory=list)
    wrong_reveal: str | None = None

    def forward(self, trial: int) -> list[Check]:
        """Check one output, and that the inputs are what the reference leaves of them.

        Raises as `Worker.ask` does.
        """
        draw = self._draw(trial)
        message = self.worker.ask(
            "forward",
            timeout_s=self.settings.call_timeout_s,
            max_tensor_bytes=self.byte_limit,
            seed=draw.seed,
            variation=draw.variation,
        )
        expected: Expected | None = None
        try:
            with claimed():
                output, inputs = message.trees["output"], list(message.trees["inputs"])
            expected = self.reference.forward(draw)
            if self._left_out(expected, draw):
                return []
            return self._compare(output, expected, inputs)
        finally:
            del expected
            message.close()
            self.reference.release()

    def backward(self, trial: int) -> tuple[list[Check], list[Check]]:
        """Check output and gradients of one call with grad: (of the output, of the gradients)."""
        draw, grad_seed = self._draw(trial), secrets.randbits(48)
        message = self.worker.ask(
            "backward",
            timeout_s=self.settings.call_timeout_s,
            max_tensor_bytes=self.byte_limit,
            seed=draw.seed,
            variation=draw.variation,
            grad_seed=grad_seed,
        )
        expected: Expected | None = None
        try:
            with claimed():
                output, inputs = message.trees["output"], list(message.trees["inputs"])
                grads = message.trees["grads"]
            expected = self.reference.backward(draw, grad_seed)
            if self._left_out(expected, draw):
                return [], []
            return self._compare(output, expected, inputs), self._compare_grads(grads, expected)
        finally:
            del expected
            message.close()
            self.reference.release()

    def reveal(
        self, worker: Worker, mode: str, seed: int, grad_seed: int, unit: int, call: int
    ) -> None:
        """Look at what one timed call returned; what is wrong is left in `wrong_reveal`."""
        message = worker.ask(
            "reveal",
            timeout_s=self.settings.call_timeout_s,
            max_tensor_bytes=self.byte_limit,
            unit=unit,
            call=call,
        )
        draw = Draw(seed=seed)
        found: list[Check] = []
        expected: Expected | None = None
        try:
            with claimed():
                output = grads = message.trees["output"]
                if mode == "forward_backward":
                    output, grads = output
            if mode in ("forward", "forward_train"):
                expected = self.reference.forward(draw, oracle=False)
            else:
                expected = self.reference.backward(draw, grad_seed, oracle=False)
                found += self._compare_grads(grads, expected)
            if mode != "backward":
                found += self._compare_output(output, expected)
        finally:
            del expected
            message.close()
            self.reference.release()
        wrong = next((c.problem for c in found if c.problem), None)
        self.wrong_reveal = self.wrong_reveal or wrong

    def _draw(self, trial: int) -> Draw:
        """Each trial has the next of the variations."""
        known = problem_files.VARIATIONS  # the odd size is checked besides
        variations = [v for v in self.settings.variations if v in known] or ["as_given"]
        return Draw(seed=secrets.randbits(48), variation=variations[trial % len(variations)])

    def _left_out(self, expected: Expected, draw: Draw) -> bool:
        """True where the reference itself is not finite under a variation: nobody's fault."""
        if draw.variation == "as_given" or expected.finite:
            return False
        self.flags.append(f"left_out:{draw.variation}")
        return True

    def _compare(self, output: Any, expected: Expected, inputs: Any) -> list[Check]:
        found = self._compare_output(output, expected)
        self._remember(found)
        names = self.reference.instance.argument_names
        after = zip(names, inputs, expected.inputs, strict=False)
        for name, theirs, ours in after:
            for check in compare.compare(theirs, ours, root=f"input {name}"):
                if check.problem is not None:
                    found.append(_mutated(check, name))
                    return found
        return found

    def _compare_output(self, output: Any, expected: Expected) -> list[Check]:
        return compare.compare(
            output,
            expected.output,
            root="output",
            tolerances=self._tolerances(),
            oracle=expected.oracle_output,
            error_ratio_limit=self._limit(),
        )

    def _compare_grads(self, grads: Any, expected: Expected) -> list[Check]:
        found: list[Check] = []
        oracle = expected.oracle_grads or {}
        if not isinstance(grads, dict) or set(grads) != set(expected.grads):
            names = sorted(grads) if isinstance(grads, dict) else type(grads).__name__
            text = f"gradients of {sorted(expected.grads)} were asked for, {names} came"
            return [Check(path="grad", problem=text)]
        for name, wanted in expected.grads.items():
            found += self._compare_grad(name, grads[name], wanted, oracle.get(name))
        self._remember(found)
        return found

    def _compare_grad(self, name: str, grad: Any, wanted: Any, oracle: Any) -> list[Check]:
        path = f"grad {name}"
        if wanted is None and grad is None:
            return [Check(path=path)]
        if grad is None:
            text = f"{path}: is missing (None); the reference has one of shape {_shape(wanted)}"
            return [Check(path=path, problem=text)]
        if wanted is None:  # an explicit zero where PyTorch has no path is the same gradient
            zero = not bool(torch.count_nonzero(grad))
            text = f"{path}: is not zero; the reference does not depend on {name}"
            return [Check(path=path, problem=None if zero else text)]
        return compare.compare(
            grad,
            wanted,
            root=path,
            tolerances=self._tolerances(),
            oracle=oracle,
            error_ratio_limit=self._limit(),
        )

    def _tolerances(self) -> dict[torch.dtype, compare.Tolerance]:
        own = {
            dtype: compare.Tolerance(rtol=rtol, atol_scale=atol)
            for dtype, (rtol, atol) in self.reference.instance.tolerances.items()
        }
        return compare.TOLERANCES | own

    def _limit(self) -> Any:
        settings = self.settings
        if settings.error_ratio_limit is not None:
            return settings.error_ratio_limit
        return compare.ERROR_RATIO_LIMIT

    def _remember(self, found: list[Check]) -> None:
        ratios = [c.error_ratio for c in found if c.error_ratio is not None]
        if ratios:
            self.worst_error_ratio = max([*ratios, self.worst_error_ratio or 0.0])


def _mutated(check: Check, name: str) -> Check:
    text = f"the input {name} was changed in place, which the reference does not do"
    return Check(path=check.path, problem=f"{text} ({check.problem})")


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape)
