"""A trial's results against the reference's: outputs, gradients, and what a call must not touch.

Each rule gives `Check`s; the first with a problem decides. Used by the checks of solutions and
by `lint`, so a mutant meets the same rules as a solution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.config import Settings
from harness.judge.checking import compare, elements, error_model
from harness.judge.reference import Expected
from harness.records import Check
from harness.shared.problem import Instance
from harness.shared.trees import walk_tensors
from harness.shared.trial import Played, Result

NOISE_GAIN = 4.0  # another order of summation may err this much more than eager does
#: Of its usual size: a leaf that is smaller has vanished (the gradient of a softmax whose inputs
#: are far apart), and what is left is as small as rounding makes it.
VANISHED = 1e-3
VANISHED_EPS = 32  # of the type, times the usual size: the rounding that is then let pass


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Tolerances and the limit of the error ratio (docs/error_model.md)."""

    tolerances: Mapping[torch.dtype, error_model.Tolerance]
    error_ratio_limit: Any

    @classmethod
    def of(cls, instance: Instance, settings: Settings) -> Rules:
        """For a dtype that the problem states tolerances for, these alone hold, fixed as in
        `assert_close`; the settings' limit of the error ratio, where there is one, always does."""
        own = {
            dtype: error_model.Tolerance(rtol=rtol, atol_scale=0.0, atol=atol)
            for dtype, (rtol, atol) in instance.tolerances.items()
        }
        limit: Any = settings.error_ratio_limit
        if limit is None:
            limits = compare.ERROR_RATIO_LIMIT
            limit = {dtype: ratio for dtype, ratio in limits.items() if dtype not in own}
        return cls(tolerances=compare.TOLERANCES | own, error_ratio_limit=limit)

    @property
    def varied(self) -> Rules:
        """The rules for inputs that were varied."""
        gain = error_model.VARIED_GAIN
        tolerances = {d: replace(t, excess_gain=gain) for d, t in self.tolerances.items()}
        return replace(self, tolerances=tolerances)

    def output(
        self, got: Any, wanted: Any, oracle: Any = None, *, root: str = "output"
    ) -> list[Check]:
        """An output, leaf by leaf."""
        return self._compare(got, wanted, oracle, root)

    def grads(
        self,
        got: Result,
        wanted: Result,
        oracle: Result | None = None,
        usual: Result | None = None,
    ) -> Iterator[Check]:
        """The gradient of every leaf that the judge has named. With `usual`, what is small
        beside the gradients there is small here."""
        for path, carries in wanted.carries.items():
            if carries and not got.carries.get(path):
                yield Check(path=path, problem=f"{path}: carries no gradient; the reference's does")
        beside = {path for path, carries in got.carries.items() if carries} - {*wanted.carries}
        for name, grad in wanted.grads.items():
            true = oracle.grads.get(name) if oracle else None
            rules = self._beside(usual.grads[name]) if usual else self
            for check in rules._grad(name, got.grads.get(name), grad, true):
                if check.problem and beside:
                    text = f"{min(beside)} carries a gradient, the reference's does not"
                    check = replace(check, problem=f"{check.problem}; {text}")
                yield check

    def _grad(self, name: str, got: Any, wanted: Any, oracle: Any) -> list[Check]:
        path = f"grad {name}"
        if wanted is None:  # an explicit zero where PyTorch has no path is the same gradient
            if not isinstance(got, torch.Tensor) or not bool(torch.count_nonzero(got)):
                return [Check(path=path)]
            return [Check(path=path, problem=f"{path}: is not zero; the reference has none")]
        if got is None:
            shape = tuple(wanted.shape)
            text = f"{path}: is missing (None); the reference has one of shape {shape}"
            return [Check(path=path, problem=text)]
        found = self._compare(got, wanted, oracle, path)
        if _first(found) and oracle is not None:
            noise = compare.noise(wanted, oracle, tolerances=self.tolerances)
            if noise > 1:  # zero but for rounding, as that of a bias before a normalisation
                return self._loosened(noise).output(got, wanted, root=path)
        return found

    def forgiving(
        self, checks: Iterable[Check], got: Result, wanted: Result, usual: Result
    ) -> Iterator[Check]:
        """`checks` once more where the reference's leaf has vanished beside that of `usual`."""
        theirs, ours, sizes = got.leaves(), wanted.leaves(), usual.leaves()
        for check in checks:
            known = all(check.path in leaves for leaves in (theirs, ours, sizes))
            if check.problem is None or not known:
                yield check
                continue
            tensor, size = ours[check.path], _rms(sizes[check.path])
            if not _rms(tensor) < VANISHED * size:
                yield check
                continue
            rules = self._with_atol(VANISHED_EPS * torch.finfo(tensor.dtype).eps * size)
            yield from rules.output(theirs[check.path], tensor, root=check.path)

    def limits_ratio(self, dtype: torch.dtype) -> bool:
        """Whether the error ratio has a limit for a dtype."""
        limit = self.error_ratio_limit
        return (limit.get(dtype) if isinstance(limit, Mapping) else limit) is not None

    def is_noise(self, wanted: torch.Tensor, oracle: torch.Tensor) -> bool:
        """Whether a leaf of eager's is zero but for rounding."""
        return compare.noise(wanted, oracle, tolerances=self.tolerances) > 1

    def _beside(self, usual: torch.Tensor | None) -> Rules:
        """Rules by which what is small beside `usual` passes: other memory read by mistake
        would be as large."""
        if usual is None or not usual.numel():
            return self
        return self._with_atol(error_model.ATOL_CAP * _rms(usual))

    def _with_atol(self, atol: float) -> Rules:
        fixed = {d: replace(t, atol=max(t.atol, atol)) for d, t in self.tolerances.items()}
        return replace(self, tolerances=fixed, error_ratio_limit=None)

    def _loosened(self, noise: float) -> Rules:
        """Rules for a leaf that is rounding noise: about as small as eager's is right."""
        scale = NOISE_GAIN * noise * error_model.ATOL_CAP
        loose = {
            dtype: replace(tolerance, atol_scale=max(tolerance.atol_scale, scale))
            for dtype, tolerance in self.tolerances.items()
        }
        return Rules(tolerances=loose, error_ratio_limit=None)

    def untouched(self, got: Result, wanted: Result, *, mutates: bool = False) -> Iterator[Check]:
        """Inputs, gradients of outputs, and the memory around them, as the reference leaves
        them: both sides drew the same. `mutates`: it does not leave them as they were drawn."""
        for kind, theirs, ours in (
            ("the input", got.inputs, wanted.inputs),
            ("the gradient of", got.grad_outputs, wanted.grad_outputs),
        ):
            for name, tensor in ours.items():
                if text := self._difference(theirs.get(name), tensor):
                    said = "was changed in place, which the reference does not do"
                    said = (
                        f"is not as the reference leaves it in place: {text}" if mutates else said
                    )
                    yield Check(path=name, problem=f"{kind} {name} {said}")
        for name, tensor in wanted.buffers.items():
            if text := self._difference(got.buffers.get(name), tensor):
                text = f"memory outside of the input {name} was written: {text}"
                yield Check(path=name, problem=text)

    def kept(self, got: Played, wanted: Played) -> Iterator[Check]:
        """Outputs at the end of a trial are what they were after their call, or change as the
        reference's do (which may be views of the inputs)."""
        for i, (theirs, ours) in enumerate(zip(got.later, wanted.later, strict=True)):
            unchanged = self.output(theirs, got.results[i].output)  # which has been judged
            if (wrong := _first(unchanged)) and _first(self.output(theirs, ours)):
                text = (
                    f"the output of call {i + 1} was changed by later calls: it shares memory "
                    f"with an input or with a later output ({wrong})"
                )
                yield Check(path="output", problem=text)

    def spread(self, played: Played) -> float:
        """The largest difference between the outputs of the first and of the last call."""
        first, last = (
            [tensor for _, tensor in walk_tensors(played.results[i].output, "")] for i in (0, -1)
        )
        return max(
            (
                float(elements.difference(elements.real(a), elements.real(b)).abs().max())
                for a, b in zip(first, last, strict=True)
                if a.numel()
            ),
            default=0.0,
        )

    def state(
        self, got: Played, wanted: Played, *, constants: tuple[str, ...] = ()
    ) -> Iterator[Check]:
        """Buffers as the reference leaves them, but for those that only count calls. Of those
        that are `constants`, a solution may have none."""
        for name, tensor in wanted.state.items():
            if name in constants and name not in got.state:
                continue
            if tensor.ndim or tensor.is_floating_point():
                path = f"{name} after the call"
                yield from self._compare(got.state.get(name), tensor, None, path)

    def noisy(self, expected: Expected) -> bool:
        """True where an output of eager is rounding noise: honest code may differ from it."""
        if expected.oracle is None:
            return False
        pairs = zip(expected.played.results, expected.oracle.results, strict=True)
        return any(
            compare.noise(ours.output, true.output, tolerances=self.tolerances) > 1
            for ours, true in pairs
        )

    def _compare(self, got: Any, wanted: Any, oracle: Any, root: str) -> list[Check]:
        return compare.compare(
            got,
            wanted,
            root=root,
            oracle=oracle,
            tolerances=self.tolerances,
            error_ratio_limit=self.error_ratio_limit,
        )

    def _difference(self, got: Any, wanted: torch.Tensor) -> str | None:
        """Bit by bit; where that differs, both sides may still have drawn the same: elementwise
        functions of the CPU round by how a tensor was split among threads."""
        if not isinstance(got, torch.Tensor):
            return "it is missing"
        if got.shape == wanted.shape and got.dtype == wanted.dtype and torch.equal(got, wanted):
            return None
        return _first(self._compare(got, wanted, None, "it"))


def _rms(tensor: torch.Tensor) -> float:
    """NaN for what is not finite, and 0 for what is no number with a fraction."""
    tensor = elements.real(tensor)
    if not tensor.is_floating_point():
        return 0.0
    wide = torch.promote_types(tensor.dtype, torch.float32)
    norm = float(torch.linalg.vector_norm(tensor, dtype=wide))
    return norm / math.sqrt(tensor.numel())


def _first(found: list[Check]) -> str | None:
    return next((check.problem for check in found if check.problem), None)
