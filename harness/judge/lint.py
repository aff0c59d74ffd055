"""Is a problem fit to judge by? Mutants of the reference meet the rules that solutions meet.

A mutant that passes is a cheat that would pass. A problem is fit where each mutant fails on
inputs as given, which are what timed calls get, from whatever seed.

Not covered: two tricks at once, and operations that change a tensor's shape.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

import torch

from harness.config import Settings
from harness.draws import Draw, GradDraw
from harness.judge import hints
from harness.judge.mutants import FAMILIES, Mutant, Scene
from harness.judge.reference import Reference
from harness.judge.rules import Rules
from harness.judge.survey import AS_GIVEN, Survey, survey, variations
from harness.records import Check
from harness.trees import map_tensors, walk_tensors
from harness.trial import Call, Result, Trial

AS_GIVEN_TRIALS = 4
MEAN_OF = 8  # results that the mean over other seeds is of


class Outcome(str, Enum):
    """What became of a mutant. Only `PASSES` makes a problem unfit; see `DOUBTFUL`."""

    CAUGHT = "caught"
    ACCURATE = "as accurate"
    NOISE = "noise"
    UNKNOWN = "unknown"
    SOMETIMES = "sometimes caught"
    VARIED = "caught if varied"
    PASSES = "passes"


#: What each outcome but `CAUGHT` means.
MEANING = {
    Outcome.ACCURATE: "its error is one that honest code may have: precision averages out here",
    Outcome.NOISE: "the reference is zero there, but for rounding",
    Outcome.UNKNOWN: "within the tolerances; no float64 reference tells its precision",
    Outcome.SOMETIMES: "caught on inputs as given from some seeds, but not from all",
    Outcome.VARIED: "never caught on inputs as given, which timed calls get",
    Outcome.PASSES: "never caught: what it does is right by the rules that judge solutions",
}
#: Outcomes for which `--strict` refuses a problem too.
DOUBTFUL = (Outcome.NOISE, Outcome.UNKNOWN, Outcome.SOMETIMES, Outcome.VARIED, Outcome.PASSES)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One mutant, judged on one part of its result: "output[1]", "grad x", "any output".

    It was caught in `caught` of `trials` on inputs as given. `error` and `size` are absolute
    maxima, of the mutant's error and of the reference's result, where it came nearest to passing.
    """

    mutant: str
    part: str
    outcome: Outcome
    caught: int
    trials: int
    error: float | None = None
    size: float | None = None
    error_ratio: float | None = None


@dataclass(kw_only=True)
class _Tally:
    """What is known so far about one part of one mutant."""

    mutant: Mutant
    part: str
    caught: int = 0
    trials: int = 0
    caught_varied: bool = False
    noise: bool = False
    nearest: Check | None = None
    size: float | None = None

    def add(self, part: _Part, *, varied: bool) -> None:
        """Count one trial: any of its checks may catch the mutant."""
        caught = any(check.problem for check in part.checks)
        if varied:
            self.caught_varied = self.caught_varied or caught
        else:
            self.trials += 1
            self.caught += caught
            self.noise = self.noise or part.noise
        if not caught or self.nearest is None:
            self.nearest = max(part.checks, key=lambda check: check.max_abs_error or 0.0)
            self.size = part.size

    def finding(self) -> Finding:
        near = self.nearest
        return Finding(
            mutant=self.mutant.name,
            part=self.part,
            outcome=self._outcome(),
            caught=self.caught,
            trials=self.trials,
            error=near.max_abs_error if near else None,
            size=self.size,
            error_ratio=near.error_ratio if near else None,
        )

    def _outcome(self) -> Outcome:
        if self.caught == self.trials:
            return Outcome.CAUGHT
        if self.noise:
            return Outcome.NOISE
        if self.mutant.precise:  # it passed: its error is one that honest code may have
            exact = self.nearest is not None and self.nearest.max_rel_error is None
            known = self.nearest is not None and self.nearest.error_ratio is not None
            return Outcome.ACCURATE if known or exact else Outcome.UNKNOWN
        if self.caught:
            return Outcome.SOMETIMES
        return Outcome.VARIED if self.caught_varied else Outcome.PASSES


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The checks of one part of a mutant's result, and what the reference gives there."""

    checks: list[Check]
    size: float
    noise: bool


@dataclass(kw_only=True)
class _Linter:
    reference: Reference
    settings: Settings
    survey: Survey
    note: Callable[[str], None]
    tallies: dict[tuple[str, str], _Tally] = field(default_factory=dict)

    def run(self) -> list[Finding]:
        mutants = [m for family in FAMILIES for m in family(self.reference, self.survey)]
        plain = [m for m in mutants if not m.weights]
        weighted = [m for m in mutants if m.weights]
        mean = _mean([self._play(self._trial()) for _ in range(MEAN_OF)])
        for number in range(AS_GIVEN_TRIALS):
            self.note(f"inputs as given, {number + 1} of {AS_GIVEN_TRIALS}")
            self._judge(plain, self._scene(self._trial(), mean))
            if weighted:
                trial = replace(self._trial(), weights_seed=secrets.randbits(48))
                self._judge(weighted, self._scene(trial, mean))
        for variation in variations(self.reference, self.settings)[1:]:
            uncaught = {t.mutant.name for t in self.tallies.values() if not t.caught}
            left = [m for m in plain if m.name in uncaught and not m.precise]
            if left and not self._left_out(variation):
                self.note(f"inputs {variation}")
                self._judge(left, self._scene(self._trial(variation), mean), varied=True)
        return [tally.finding() for tally in self.tallies.values()]

    def _left_out(self, variation: str) -> bool:
        return any((phase, variation) in self.survey.left_out for phase in self.survey.phases)

    def _trial(self, variation: str = AS_GIVEN) -> Trial:
        draw = Draw(seed=secrets.randbits(48), variation=variation)
        grad = GradDraw(seed=secrets.randbits(48)) if self.survey.outputs else None
        return Trial(calls=(Call(draw=draw, grad=grad),))

    def _play(self, trial: Trial) -> Result:
        return self.reference.play(trial).results[0]

    def _scene(self, trial: Trial, mean: Result) -> Scene:
        expected = self.reference.expected(trial, oracle=not self.survey.random)
        return Scene(
            reference=self.reference,
            trial=trial,
            result=expected.played.results[0],
            oracle=expected.oracle.results[0] if expected.oracle else None,
            mean=mean,
        )

    def _judge(self, mutants: list[Mutant], scene: Scene, *, varied: bool = False) -> None:
        for mutant in mutants:
            for name, part in self._parts(mutant, scene):
                key = mutant.name, name
                if key not in self.tallies:
                    self.tallies[key] = _Tally(mutant=mutant, part=name)
                self.tallies[key].add(part, varied=varied)

    def _parts(self, mutant: Mutant, scene: Scene) -> Iterator[tuple[str, _Part]]:
        """(name, part) of what a mutant is judged on."""
        got, wanted, true = mutant.make(scene), scene.result, scene.oracle
        rules = Rules.of(self.reference.instance, self.settings)
        checks: list[Check] = []
        if mutant.output:
            checks += rules.output(got.output, wanted.output, true.output if true else None)
        if mutant.grads:
            checks += rules.grads(got, wanted, true)
        ours, theirs = _tensors(wanted), _tensors(true) if true else {}
        checks = [check for check in checks if check.path in ours]
        if not mutant.everywhere and checks:
            size = max(_size(ours[check.path]) for check in checks)
            yield "any output", _Part(checks=checks, size=size, noise=False)
            return
        for check in checks:
            tensor = ours[check.path]
            noise = check.path in theirs and rules.is_noise(tensor, theirs[check.path])
            yield check.path, _Part(checks=[check], size=_size(tensor), noise=noise)


def lint(
    reference: Reference, settings: Settings, note: Callable[[str], None] = lambda text: None
) -> list[Finding]:
    """Judge every mutant of the reference. Raises `ProblemError`."""
    linter = _Linter(
        reference=reference, settings=settings, survey=survey(reference, settings), note=note
    )
    return linter.run()


def _tensors(result: Result) -> dict[str, torch.Tensor]:
    """The tensors of a result that hold anything, by the paths that checks have."""
    found = dict(walk_tensors(result.output, "output"))
    found |= {f"grad {n}": g for n, g in result.grads.items() if g is not None}
    return {path: tensor for path, tensor in found.items() if tensor.numel()}


def _size(tensor: torch.Tensor) -> float:
    return float(hints.finite(hints.real(tensor)).abs().max())


def _mean(results: list[Result]) -> Result:
    """Leaf by leaf; integers and booleans rounded."""
    many = [_flat(result) for result in results]
    mean = iter([_mean_of(list(leaf)) for leaf in zip(*many, strict=True)])
    first = results[0]
    return Result(
        output=map_tensors(lambda _: next(mean), first.output),
        grads=map_tensors(lambda _: next(mean), first.grads),
        carries=first.carries,
    )


def _flat(result: Result) -> list[torch.Tensor]:
    return [tensor for _, tensor in walk_tensors([result.output, result.grads], "")]


def _mean_of(leaf: list[torch.Tensor]) -> torch.Tensor:
    wide = torch.complex128 if leaf[0].is_complex() else torch.float64
    total = torch.zeros(leaf[0].shape, dtype=wide, device=leaf[0].device)
    for tensor in leaf:
        total += tensor
    return (total / len(leaf)).to(leaf[0].dtype)
