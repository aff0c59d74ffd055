"""What becomes of mutants: counted trial by trial, then told in one record each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from harness.judge.fitness.mutants import Mutant
from harness.records import Check


class Outcome(str, Enum):
    """What became of a mutant. Only `PASSES` makes a problem unfit; see `DOUBTFUL`."""

    CAUGHT = "caught"
    ACCURATE = "as accurate"
    SELDOM = "seldom passes"
    NOISE = "noise"
    UNKNOWN = "unknown"
    SOMETIMES = "sometimes caught"
    VARIED = "caught if varied"
    PASSES = "passes"


#: Up to this chance that a mutant passes an evaluation, a problem is not in doubt: a search would
#: need more than a thousand candidates for one pass by luck.
CREDIBLE_CHANCE = 1e-3

#: What each outcome but `CAUGHT` means.
MEANING = {
    Outcome.ACCURATE: "its error is one that honest code may have: precision averages out here",
    Outcome.SELDOM: "missed on a few seeds; an evaluation lets it pass by the chance given, below "
    "1 in 1000",
    Outcome.NOISE: "the reference is zero there, but for rounding",
    Outcome.UNKNOWN: "within the tolerances, and nothing else tells its precision",
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
    `chance`: that it passes an evaluation, where seeds decide (`chance_of_passing`).
    """

    mutant: str
    part: str
    outcome: Outcome
    caught: int
    trials: int
    error: float | None = None
    size: float | None = None
    error_ratio: float | None = None
    chance: float | None = None


def chance_of_passing(missed: int, trials: int, looks: int) -> float:
    """The chance that a mutant passes each of `looks` independent looks, where it passed `missed`
    of `trials` alike.

    With p, the share of seeds on which it passes, as likely to be one number as another before
    anything was tried, p is Beta(missed + 1, trials - missed + 1) after it, and the chance is the
    mean of p^looks: the product over i < looks of (missed + 1 + i) / (trials + 2 + i). For one
    look that is Laplace's rule of succession (Gelman et al., Bayesian Data Analysis, 2.1). It
    errs towards doubt: where under half was missed, (missed / trials)^looks is less. When to try
    no more may hang on what was seen so far.
    """
    return math.prod((missed + 1 + i) / (trials + 2 + i) for i in range(looks))


@dataclass(frozen=True, kw_only=True)
class Part:
    """The checks of one part of a mutant's result, and what the reference gives there: `noise`
    is zero but for rounding. `limited`: there is a limit of the error ratio."""

    checks: list[Check]
    size: float
    noise: bool = False
    limited: bool = True


@dataclass(kw_only=True)
class Tally:
    """What is known so far about one part of one mutant. `looks`: how many looks at that part, on
    inputs as given, an evaluation takes at least."""

    mutant: Mutant
    part: str
    looks: int
    caught: int = 0
    trials: int = 0
    caught_varied: bool = False
    noise: bool = False
    limited: bool = True
    nearest: Check | None = None
    size: float | None = None

    def add(self, part: Part, *, varied: bool) -> None:
        """Count one trial: any of its checks may catch the mutant."""
        caught = any(check.problem for check in part.checks)
        if varied:
            self.caught_varied = self.caught_varied or caught
        else:
            self.trials += 1
            self.caught += caught
            self.noise = self.noise or part.noise
            self.limited = self.limited and part.limited
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
            chance=self._chance if self.undecided else None,
        )

    @property
    def undecided(self) -> bool:
        """Whether it hangs on the seed if it is caught, and that matters."""
        return 0 < self.caught < self.trials and not self._accurate

    @property
    def _chance(self) -> float:
        return chance_of_passing(self.trials - self.caught, self.trials, self.looks)

    @property
    def _accurate(self) -> bool:
        """Whether it passed with an error that honest code may have."""
        if not self.mutant.precise or self.noise or self.nearest is None:
            return False
        exact = self.nearest.max_rel_error is None
        return exact or (self.limited and self.nearest.error_ratio is not None)

    def _outcome(self) -> Outcome:
        if self.caught == self.trials:
            return Outcome.CAUGHT
        if self._accurate:
            return Outcome.ACCURATE
        if self.caught and self._chance < CREDIBLE_CHANCE:
            return Outcome.SELDOM
        if self.noise:
            return Outcome.NOISE
        if self.mutant.precise:
            return Outcome.UNKNOWN
        if self.caught:
            return Outcome.SOMETIMES
        return Outcome.VARIED if self.caught_varied else Outcome.PASSES
