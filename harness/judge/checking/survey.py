"""What the reference allows: found out before a solution is judged.

Every pass is played on the reference alone, from seeds that are not used again. Where it
raises, is not finite, returns rounding noise or does not fit, no solution is asked either; the
rows say so with `left_out:NAME`. Inputs as given are always asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.config import Settings
from harness.errors import ProblemError
from harness.judge.checking import compare, traits
from harness.judge.checking.passes import PASSES, Ask, Pass, interleaved, sequence
from harness.judge.checking.rules import Rules
from harness.judge.reference import Expected, Reference
from harness.records import MODES, Phase
from harness.shared.draws import Draw
from harness.shared.mixing import Renewal
from harness.shared.trees import dense, walk_tensors
from harness.shared.trial import Call, Trial

AS_GIVEN = "as_given"
MEMORY_SHARE = 0.45  # of the device, for the reference alone: the worker needs as much


@dataclass(frozen=True, kw_only=True)
class Survey:
    """`outputs`: paths of what is differentiated. `leaves`: what can be differentiated by,
    `weights`: those of them that are parameters.
    `left_out`: (phase, variation or pass) that the reference does not allow. `random`: it draws
    random numbers itself. `finite`: it is, for inputs as given. `stateful`: it has weights.
    `mutates`: it changes inputs in place, as a step of an optimiser does. `drifts`: what it gives
    depends on the calls before, as with the state of a spectral normalisation.
    `overwrites`: a call writes over what the one before returned, as where that is a buffer.
    `mixable`: it has inputs that can be mixed of two draws, and takes them. `backward`: it is
    checked, where there is one. `constants`: buffers that a solution may do without."""

    outputs: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    left_out: frozenset[tuple[Phase, str]] = frozenset()
    random: bool = False
    finite: bool = True
    stateful: bool = False
    mutates: bool = False
    drifts: bool = False
    overwrites: bool = False
    mixable: bool = True
    backward: bool = True
    constants: tuple[str, ...] = ()

    @property
    def repeatable(self) -> bool:
        """Whether a timed call can be made again: from the same seed it gives the same."""
        return not (self.random or self.mutates or self.drifts)

    @property
    def renewal(self) -> Renewal:
        """How timed calls may get new values."""
        return Renewal(
            mix=self.mixable,
            touch=self.mixable and not self.mutates,
            seeded=self.random,
            restored=self.drifts,
            mutates=self.mutates,
            singly=self.singly,
        )

    @property
    def singly(self) -> tuple[str, ...]:
        """Modes of which no two calls can be under way at once: the second changes, or what is put
        back for it, what the first returned, or what its backward needs."""
        if self.overwrites:
            return MODES
        apart = self.drifts or (Phase.BACKWARD, interleaved.__name__) in self.left_out
        return ("backward",) if apart else ()

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Those that are checked: without an output that can be differentiated, no backward."""
        both = self.outputs and self.backward
        return (Phase.FORWARD, Phase.BACKWARD) if both else (Phase.FORWARD,)

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
            weights=self.weights,
            stateful=self.stateful,
            short=(phase, sequence.__name__) in self.left_out,
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
    if traits.differ(rules, reference.call(draw).output, output):
        raise ProblemError(
            "two calls of the reference on the same inputs, after the same torch.manual_seed, "
            "give different results: nothing can be judged by it",
            path=reference.instance.path,
        )
    if not first.finite and (names := traits.uninitialised(reference)):
        text = f"{', '.join(names)}: NaN, which what nothing initialised holds (torch.empty)"
        raise ProblemError(text, path=reference.instance.path)
    try:
        outputs, leaves = reference.differentiated
    except ProblemError:  # eager itself cannot go back, as after some in-place operations
        if settings.require_backward:
            raise
        outputs, leaves = (), ()
    found = Survey(
        outputs=outputs,
        leaves=leaves,
        weights=tuple(name for name in reference.binding.parameters() if name in leaves),
        random=traits.differ(rules, reference.call(draw, salt=1).output, output),
        finite=first.finite,
        stateful=bool(reference.binding.names),
        mutates=traits.changes_inputs(reference, draw, first),
        drifts=traits.depends_on_calls_before(reference, rules, draw),
        overwrites=traits.overwrites(reference, rules, draw),
        backward=not settings.quick,
        constants=reference.constants,
    )
    del first, output
    return replace(
        found,
        left_out=_left_out(reference, rules, found, settings),
        mixable=traits.has_something_to_mix(reference)
        and traits.takes_mixtures(reference, finite=found.finite),
    )


def _left_out(
    reference: Reference, rules: Rules, found: Survey, settings: Settings
) -> frozenset[tuple[Phase, str]]:
    """What the reference does not allow."""
    varied = variations(reference, settings)
    for phase in found.phases:
        for check in PASSES:
            ask = found.ask(phase, 0, varied, settings)  # anew: what was left out tells what to ask
            for trial in check.trials(ask) if phase in check.phases else ():
                if not _admits(reference, rules, check, trial, oracle=not found.random):
                    left_out = (phase, label(check, trial))
                    found = replace(found, left_out=found.left_out | {left_out})
                reference.release()
    return found.left_out


def label(check: Pass, trial: Trial) -> str:
    """What is left out: a variation of the inputs, or a whole pass."""
    variation = trial.calls[0].draw.variation
    return check.name if variation == AS_GIVEN else variation


def _admits(reference: Reference, rules: Rules, check: Pass, trial: Trial, *, oracle: bool) -> bool:
    """Whether the reference can be asked for this trial. Plain calls as given always can."""
    varied = trial.calls[0].draw.variation != AS_GIVEN
    if check.graded and not varied:
        return True
    kept: list[Expected] = []
    try:
        share = peak_share(
            reference,
            lambda: kept.append(reference.expected(trial, oracle=varied and oracle)),
        )
    except Exception:  # noqa: BLE001 - whatever the reference raises, it is not asked for again
        return False
    return share <= MEMORY_SHARE and (not varied or fit(kept[0], rules))


def fit(expected: Expected, rules: Rules) -> bool:
    """Whether a solution can be judged by these results: finite, and more than rounding noise."""
    return expected.finite and not rules.noisy(expected)


def peak_share(reference: Reference, action: Callable[[], Any]) -> float:
    """The share of the device's memory that `action` takes; 0 on a CPU."""
    if reference.instance.device.type != "cuda":
        action()
        return 0.0
    torch.cuda.reset_peak_memory_stats()
    action()
    device = torch.cuda.current_device()
    total: int = torch.cuda.get_device_properties(device).total_memory
    return torch.cuda.max_memory_allocated() / total


def require_comparable(reference: Reference) -> None:
    """Raises `ProblemError` where inputs cannot be handed over, or nothing of what the reference
    returns can be compared."""
    path, instance = reference.instance.path, reference.instance
    inputs, known = instance.inputs(Draw(seed=1)), set()
    for name, value in zip(instance.input_names(inputs), inputs, strict=True):
        for at, tensor in walk_tensors(value, name):
            if not dense(tensor):
                text = f"the input {at} is not a dense tensor: only those can be handed over"
                raise ProblemError(text, path=path)
            if at in known:
                text = f"two inputs are {at}: keys of a dict must differ as text"
                raise ProblemError(text, path=path)
            known.add(at)
    output = reference.call(Draw(seed=1)).output
    if not any(tensor.numel() for _, tensor in walk_tensors(output, "")):
        raise ProblemError("Model returns no tensor that holds anything", path=path)
    try:
        compare.compare(output, output, root="output")
    except ValueError as error:
        raise ProblemError(str(error), path=path) from error
