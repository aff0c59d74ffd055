"""What is tried on a solution: each pass orders trials, and says what a difference means.

`PASSES` is the whole list. Those of phase FORWARD run first, without grad; then those of phase
BACKWARD, in which every call is followed by a backward. What a trial gives is held against
what the reference gives under the same trial, so that no pass need know the right answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from harness.records import Phase
from harness.shared.draws import Draw, GradDraw
from harness.shared.trial import Call, Trial

SUBSETS = 3  # leaves that are asked for alone


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What trials are made for. `grad`: with a backward. `leaves`: what can be differentiated
    by, `weights`: those of them that are parameters. `layouts`: those that inputs are tried in
    beside contiguous. `stateful`: the reference has parameters or buffers. `short`: there is no
    room for a whole `sequence`."""

    grad: bool
    trials: int
    variations: tuple[str, ...]
    layouts: tuple[str, ...]
    leaves: tuple[str, ...]
    weights: tuple[str, ...]
    stateful: bool
    short: bool = False

    def call(
        self, *, variation: str = "as_given", layout: str = "contiguous", grad: str = "contiguous"
    ) -> Call:
        """A call on inputs from a fresh secret seed; `grad`: layout of the outputs' gradients."""
        return Call(
            draw=Draw(seed=secrets.randbits(48), variation=variation, layout=layout),
            grad=GradDraw(seed=secrets.randbits(48), layout=grad) if self.grad else None,
        )


def values(ask: Ask) -> Iterator[Trial]:
    """The variations in turn; in a backward, each with its own gradients of the outputs."""
    for number in range(ask.trials):
        yield Trial(calls=(ask.call(variation=ask.variations[number % len(ask.variations)]),))


def guarded(ask: Ask) -> Iterator[Trial]:
    """Inputs between NaN: reads past an end show, and writes, since that memory is compared."""
    yield Trial(calls=(ask.call(layout="guarded", grad="guarded"),))


def other_memory(ask: Ask) -> Iterator[Trial]:
    """Uninitialised memory holds a number; in all other passes, NaN."""
    yield Trial(calls=(ask.call(),), poison="number")


def sequence(ask: Ask) -> Iterator[Trial]:
    """A, B, C in the tensors that held B, D, A again: outputs are looked at after their call and
    once more at the end, so caches and outputs that share memory show, in up to three buffers."""
    first, second, refilled = ask.call(), ask.call(), replace(ask.call(), inputs="refilled")
    yield Trial(calls=(first, second, refilled, ask.call(), first))


def refilled(ask: Ask) -> Iterator[Trial]:
    """A, and B in its tensors: what is left of `sequence` where five calls do not fit."""
    if ask.short:
        yield Trial(calls=(ask.call(), replace(ask.call(), inputs="refilled")))


def evaluation(ask: Ask) -> Iterator[Trial]:
    """A call in training mode, whose running statistics one in evaluation mode then uses."""
    yield Trial(calls=(replace(ask.call(), grad=None), replace(ask.call(), training=False)))


def evaluation_on_new_weights(ask: Ask) -> Iterator[Trial]:
    """The same once more: what was worked out from the weights in evaluation mode shows."""
    for trial in evaluation(ask) if ask.stateful else ():
        yield replace(trial, weights_seed=secrets.randbits(48))


def new_weights(ask: Ask) -> Iterator[Trial]:
    """Other weights in the same parameters: what was computed from the first ones shows."""
    if ask.stateful:
        yield Trial(calls=(ask.call(),), weights_seed=secrets.randbits(48))


def strided(ask: Ask) -> Iterator[Trial]:
    """The same values in views with gaps."""
    if "strided" in ask.layouts:
        yield Trial(calls=(ask.call(layout="strided"),))


def misaligned(ask: Ask) -> Iterator[Trial]:
    """Contiguous inputs at addresses that are no multiple of 16 bytes."""
    if "misaligned" in ask.layouts:
        yield Trial(calls=(ask.call(layout="misaligned"),))


def interleaved(ask: Ask) -> Iterator[Trial]:
    """Two forwards, then their backwards: what is kept outside of the graph gets mixed up."""
    yield Trial(calls=(ask.call(), ask.call()), forwards_first=True)


def accumulated(ask: Ask) -> Iterator[Trial]:
    """Two backwards with different gradients of the outputs add up in `.grad`."""
    first = ask.call()
    again = replace(first, grad=ask.call().grad, inputs="same")
    yield Trial(calls=(first, again), accumulate=True)


def alone(ask: Ask) -> Iterator[Trial]:
    """One leaf requires a gradient and the others do not, for a few leaves."""
    if len(ask.leaves) > 1:
        for name in secrets.SystemRandom().sample(ask.leaves, min(SUBSETS, len(ask.leaves))):
            yield Trial(calls=(ask.call(),), needs=(name,))


def one_kind(ask: Ask) -> Iterator[Trial]:
    """Parameters alone require a gradient, as in a first layer; inputs alone, as of a model that
    is frozen."""
    inputs = tuple(name for name in ask.leaves if name not in ask.weights)
    if inputs and ask.weights:
        yield Trial(calls=(ask.call(),), needs=ask.weights)
        yield Trial(calls=(ask.call(),), needs=inputs)


def expanded_gradient(ask: Ask) -> Iterator[Trial]:
    """The gradients of the outputs are one value with strides of 0. What comes of that may be
    zero but for rounding; a call with random ones, on the same inputs, shows what is small."""
    usual = ask.call()
    yield Trial(calls=(usual, replace(usual, grad=ask.call(grad="expanded").grad, inputs="same")))


def strided_gradient(ask: Ask) -> Iterator[Trial]:
    """The gradients of the outputs lie in memory with gaps."""
    yield Trial(calls=(ask.call(grad="strided"),))


@dataclass(frozen=True, kw_only=True)
class Pass:
    """`says` begins its messages. `precise`: the error ratio is judged too, not only the
    tolerances. `refusal`: the flag of a solution that raises here, which alone fails nobody.
    `graded`: made at the graded size too; the others only where they are cheap."""

    trials: Callable[[Ask], Iterator[Trial]]
    says: str = ""
    phases: tuple[Phase, ...] = (Phase.FORWARD, Phase.BACKWARD)
    precise: bool = False
    graded: bool = False
    refusal: str | None = None

    @property
    def name(self) -> str:
        return self.trials.__name__


_FORWARD, _BACKWARD = (Phase.FORWARD,), (Phase.BACKWARD,)

PASSES: tuple[Pass, ...] = (
    Pass(trials=values, precise=True, graded=True),
    Pass(trials=guarded, says="with other memory right before and after the inputs"),
    Pass(trials=other_memory, says="where uninitialised memory holds another value"),
    Pass(trials=sequence, says="over several calls", phases=_FORWARD),
    Pass(trials=refilled, says="over two calls", phases=_FORWARD),
    Pass(trials=interleaved, says="with two calls under way", phases=_BACKWARD),
    Pass(trials=accumulated, says="added up in .grad over two backwards", phases=_BACKWARD),
    Pass(trials=alone, says="where one leaf alone requires a gradient", phases=_BACKWARD),
    Pass(
        trials=one_kind,
        says="where parameters alone, or inputs alone, require a gradient",
        phases=_BACKWARD,
    ),
    Pass(trials=new_weights, says="with new weights in the same parameters", precise=True),
    Pass(trials=evaluation, says="in evaluation mode, after a call in training mode"),
    Pass(
        trials=evaluation_on_new_weights,
        says="in evaluation mode, with new weights in the same parameters",
        phases=_FORWARD,
    ),
    Pass(
        trials=strided,
        says="for inputs that are not contiguous",
        refusal="contiguous_only",
    ),
    Pass(
        trials=misaligned,
        says="for inputs at an address that is no multiple of 16 bytes",
        refusal="aligned_only",
    ),
    Pass(
        trials=expanded_gradient,
        says="for an expanded gradient of the output (strides of 0, as .sum().backward() gives)",
        phases=_BACKWARD,
        refusal="contiguous_gradient_only",
    ),
    Pass(
        trials=strided_gradient,
        says="for a gradient of the output that is not contiguous",
        phases=_BACKWARD,
        refusal="contiguous_gradient_only",
    ),
)
