"""Is a problem fit to judge by? Mutants of the reference meet the rules that solutions meet.

A mutant that passes is a cheat that would pass. A problem is fit where each mutant fails on
inputs as given, which are what timed calls get. By chance it may pass on a few of them (the mean
over half of the data is close to the mean over all): a mutant that was caught on some of the
first seeds only is tried on more, and what counts is its chance to pass an evaluation
(`outcomes.chance_of_passing`).

Not covered: two tricks at once, and operations that change a tensor's shape. A mutant that passes
on half of the seeds is caught on all of the first ones, and not doubted, once in 16 times.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch

from harness.config import Settings
from harness.errors import ProblemError
from harness.judge.checking import elements
from harness.judge.checking.rules import Rules
from harness.judge.checking.survey import AS_GIVEN, Survey, survey, variations
from harness.judge.fitness.mutants import FAMILIES, Mutant, Scene
from harness.judge.fitness.outcomes import Finding, Part, Tally
from harness.judge.reference import Reference
from harness.records import Check, Phase
from harness.shared.draws import Draw, GradDraw
from harness.shared.trees import map_tensors, walk_tensors
from harness.shared.trial import Call, Result, Trial

AS_GIVEN_TRIALS = 4
#: For those that seeds decide about, as many again. With 32 in all, one miss by chance is no doubt
#: even in a gradient, which an evaluation takes 3 looks at; of an output, with 5, six are none.
MORE_TRIALS = 28
MEAN_OF = 8  # results that the mean over other seeds is of


@dataclass(kw_only=True)
class _Linter:
    reference: Reference
    settings: Settings
    survey: Survey
    note: Callable[[str], None]
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)

    def run(self) -> list[Finding]:
        mutants = [m for family in FAMILIES for m in family(self.reference, self.survey)]
        mean = _mean([self._play(self._trial()) for _ in range(MEAN_OF)])
        self._as_given(mutants, mean, AS_GIVEN_TRIALS)
        undecided = {t.mutant.name for t in self.tallies.values() if t.undecided}
        self._as_given([m for m in mutants if m.name in undecided], mean, MORE_TRIALS)
        plain = [m for m in mutants if not m.weights]
        for variation in variations(self.reference, self.settings)[1:]:
            uncaught = {t.mutant.name for t in self.tallies.values() if not t.caught}
            left = [m for m in plain if m.name in uncaught and not m.precise]
            if left and not self._left_out(variation):
                self.note(f"inputs {variation}")
                self._judge(left, self._scene(self._trial(variation), mean), varied=True)
        return [tally.finding() for tally in self.tallies.values()]

    def _as_given(self, mutants: list[Mutant], mean: Result, trials: int) -> None:
        plain = [m for m in mutants if not m.weights]
        weighted = [m for m in mutants if m.weights]
        for number in range(trials):
            self.note(f"inputs as given, {number + 1} of {trials}")
            if plain:
                self._judge(plain, self._scene(self._trial(), mean))
            if weighted:
                trial = replace(self._trial(), weights_seed=secrets.randbits(48))
                self._judge(weighted, self._scene(trial, mean))

    def _looks(self, mutant: Mutant, part: str) -> int:
        """How many looks at a part of a result an evaluation takes at least, at the whole of it
        and at its precision, on inputs as given: the plain trials of each phase, and what a call
        of the first epoch of each mode returned; at new weights, one trial of each phase. Other
        passes look by the tolerances alone, and the judge's clock at samples."""
        phases = self.survey.phases
        if mutant.weights:
            return len(phases)
        modes = [m for m in self.settings.modes if m == "forward" or Phase.BACKWARD in phases]
        if part.startswith("grad "):
            phases, modes = phases[1:], [m for m in modes if "backward" in m]
        else:
            modes = [m for m in modes if m != "backward"]
        known = variations(self.reference, self.settings)
        asks = [self.survey.ask(phase, 0, known, self.settings) for phase in phases]
        plain = sum(math.ceil(ask.trials / len(ask.variations)) for ask in asks)
        return plain + (len(modes) if self.survey.repeatable else 0)

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
                    self.tallies[key] = Tally(
                        mutant=mutant, part=name, looks=self._looks(mutant, name)
                    )
                self.tallies[key].add(part, varied=varied)

    def _parts(self, mutant: Mutant, scene: Scene) -> Iterator[tuple[str, Part]]:
        """(name, part) of what a mutant is judged on: none, where it raises and so cannot pass."""
        try:
            got = mutant.make(scene)
        except ProblemError:
            return
        wanted, true = scene.result, scene.oracle
        rules = Rules.of(self.reference.instance, self.settings)
        if scene.trial.calls[0].draw.variation != AS_GIVEN:
            rules = rules.varied
        checks: list[Check] = []
        if mutant.output:
            checks += rules.output(got.output, wanted.output, true.output if true else None)
        if mutant.grads:
            checks += rules.grads(got, wanted, true)
        ours, theirs = wanted.leaves(), true.leaves() if true else {}
        checks = [check for check in checks if check.path in ours]
        if not mutant.everywhere and checks:
            size = max(_size(ours[check.path]) for check in checks)
            yield "any output", Part(checks=checks, size=size)
            return
        for check in checks:
            tensor = ours[check.path]
            noise = check.path in theirs and rules.is_noise(tensor, theirs[check.path])
            limited = rules.limits_ratio(tensor.dtype)
            yield (
                check.path,
                Part(checks=[check], size=_size(tensor), noise=noise, limited=limited),
            )


def lint(
    reference: Reference, settings: Settings, note: Callable[[str], None] = lambda text: None
) -> list[Finding]:
    """Judge every mutant of the reference. Raises `ProblemError`."""
    linter = _Linter(
        reference=reference, settings=settings, survey=survey(reference, settings), note=note
    )
    return linter.run()


def _size(tensor: torch.Tensor) -> float:
    return float(elements.finite(elements.real(tensor)).abs().max())


def _mean(results: list[Result]) -> Result:
    """Leaf by leaf; integers and booleans rounded. Where a shape hangs on values, one of them."""
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
    if any(tensor.shape != leaf[0].shape for tensor in leaf):
        return leaf[0]
    wide = torch.complex128 if leaf[0].is_complex() else torch.float64
    total = torch.zeros(leaf[0].shape, dtype=wide, device=leaf[0].device)
    for tensor in leaf:
        total += tensor
    return (total / len(leaf)).to(leaf[0].dtype)
