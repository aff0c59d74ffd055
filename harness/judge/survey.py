"""What the reference itself allows: found out before any solution is judged by it.

Every pass is played on the reference alone, from seeds that are not used again. Where it
raises, is not finite, returns rounding noise or does not fit, no solution is asked either; the
rows say so with `left_out:NAME`. Inputs as given are always asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.config import Settings
from harness.draws import Draw
from harness.errors import ProblemError
from harness.judge.passes import PASSES, Ask, Pass
from harness.judge.reference import Expected, Reference
from harness.judge.rules import Rules
from harness.records import Phase
from harness.trial import Call, Trial

AS_GIVEN = "as_given"
MEMORY_SHARE = 0.45  # of the device, for the reference alone: the worker needs as much


@dataclass(frozen=True, kw_only=True)
class Survey:
    """`outputs`: paths of what is differentiated. `leaves`: what can be differentiated by.
    `left_out`: (phase, variation or pass) that the reference does not allow. `random`: it draws
    random numbers itself. `finite`: it is, for inputs as given."""

    outputs: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    left_out: frozenset[tuple[Phase, str]] = frozenset()
    random: bool = False
    finite: bool = True

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Without an output that can be differentiated no backward is asked for."""
        return (Phase.FORWARD, Phase.BACKWARD) if self.outputs else (Phase.FORWARD,)

    def ask(
        self, phase: Phase, trials: int, variations: tuple[str, ...], settings: Settings
    ) -> Ask:
        """What a pass is to order. `trials` 0: each variation once, and as many as are set."""
        allowed = tuple(v for v in variations if (phase, v) not in self.left_out)
        return Ask(
            grad=phase is Phase.BACKWARD,
            trials=trials or max(settings.trials, len(allowed)),
            variations=allowed,
            layouts=settings.layouts,
            leaves=self.leaves,
        )


def variations(reference: Reference, settings: Settings) -> tuple[str, ...]:
    """Those of the settings that the problem file allows; as given comes first, always."""
    allowed = set(settings.variations) & set(reference.instance.variations)
    return (AS_GIVEN, *(v for v in settings.variations if v in allowed and v != AS_GIVEN))


def survey(reference: Reference, settings: Settings) -> Survey:
    """Play every pass on the reference. Raises `ProblemError` where it contradicts itself, and
    whatever it raises for inputs as given."""
    rules = Rules.of(reference.instance, settings)
    draw = Draw(seed=1)
    first = reference.expected(Trial(calls=(Call(draw=draw),)), oracle=False)
    output = first.played.results[0].output
    if _differ(rules, reference.call(draw).output, output):
        raise ProblemError(
            "two calls of the reference on the same inputs, after the same torch.manual_seed, "
            "give different results: nothing can be judged by it",
            path=reference.instance.path,
        )
    outputs, leaves = reference.differentiated
    found = Survey(
        outputs=outputs,
        leaves=leaves,
        random=_differ(rules, reference.call(draw, salt=1).output, output),
        finite=first.finite,
    )
    del first, output
    return replace(found, left_out=frozenset(_left_out(reference, rules, found, settings)))


def _left_out(
    reference: Reference, rules: Rules, found: Survey, settings: Settings
) -> Iterator[tuple[Phase, str]]:
    """What the reference does not allow."""
    for phase in found.phases:
        ask = found.ask(phase, 0, variations(reference, settings), settings)
        for check in PASSES:
            for trial in check.trials(ask) if phase in check.phases else ():
                if not _admits(reference, rules, check, trial, oracle=not found.random):
                    yield phase, label(check, trial)
                reference.release()


def label(check: Pass, trial: Trial) -> str:
    """What is left out: a variation of the inputs, or a whole pass."""
    variation = trial.calls[0].draw.variation
    return check.name if variation == AS_GIVEN else variation


def _admits(reference: Reference, rules: Rules, check: Pass, trial: Trial, *, oracle: bool) -> bool:
    """Whether the reference can be asked for this trial. Plain calls as given always can."""
    varied = trial.calls[0].draw.variation != AS_GIVEN
    if check.graded and not varied:
        return True
    cuda = reference.instance.device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    try:
        expected = reference.expected(trial, oracle=varied and oracle)
    except Exception:  # noqa: BLE001 - whatever the reference raises, it is not asked for again
        return False
    if cuda and torch.cuda.max_memory_allocated() > MEMORY_SHARE * _total_bytes():
        return False
    return not varied or fit(expected, rules)


def fit(expected: Expected, rules: Rules) -> bool:
    """Whether a solution can be judged by these results: finite, and more than rounding noise."""
    return expected.finite and not rules.noisy(expected)


def _total_bytes() -> int:
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)


def _differ(rules: Rules, one: Any, other: Any) -> bool:
    return any(check.problem for check in rules.output(one, other))
