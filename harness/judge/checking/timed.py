"""What timed calls returned, held against the reference: whole outputs, or samples of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from harness.config import Settings
from harness.judge.checking.rules import Rules
from harness.judge.checking.survey import Survey
from harness.judge.process.sandbox import Worker, claimed
from harness.judge.reference import Expected, Reference
from harness.shared.draws import Draw, GradDraw
from harness.shared.mixing import sample
from harness.shared.trees import map_tensors, walk_tensors
from harness.shared.trial import Call, Played, Result, Trial

FORWARD_MODES = ("forward", "forward_train")  # those that return no gradients


@dataclass(kw_only=True)
class TimedCalls:
    """Looks at timed calls, at the size of `reference`; what is wrong is left in `wrong_reveal`."""

    settings: Settings
    reference: Reference
    survey: Survey
    byte_limit: int
    flags: list[str] = field(default_factory=list)
    wrong_reveal: str | None = None

    @property
    def rules(self) -> Rules:
        return Rules.of(self.reference.instance, self.settings)

    def reveal(
        self, worker: Worker, mode: str, draw: Draw, grad_seed: int, unit: int, call: int
    ) -> None:
        """Look at what one timed call returned; what is wrong is left in `wrong_reveal`."""
        if not self.survey.repeatable:  # not seeded one by one, or what they go by has changed
            self.flags.append("timed_outputs_not_compared")
            return
        message = worker.ask(
            "reveal",
            timeout_s=self.settings.call_timeout_s,
            max_tensor_bytes=self.byte_limit,
            unit=unit,
            call=call,
        )
        try:
            with claimed():
                got = _timed_result(mode, message.trees["output"])
            self._examine(mode, draw, grad_seed, got)
        finally:
            message.close()

    def first(self, worker: Worker, mode: str, draw: Draw, grad_seed: int, call: int) -> None:
        """The same for a call of the unit on values of which nothing was met before; the first call
        of it was seeded, too, and went by buffers as they were. After a forward in training the
        worker has gone back, which is looked at where several calls may be under way."""
        paired = mode == "forward_train"
        message = worker.ask(
            "reveal",
            timeout_s=self.settings.call_timeout_s,
            max_tensor_bytes=self.byte_limit,
            unit=0,
            call=call,
        )
        try:
            with claimed():
                got = self._with_inputs(
                    "forward_backward" if paired else mode, message.trees["output"]
                )
            both = paired and "backward" not in self.survey.singly
            self._examine("forward_backward" if both else mode, draw, grad_seed, got)
        finally:
            message.close()

    def _with_inputs(self, mode: str, tree: Any) -> Result:
        """What a timed call returned; of one that changes its inputs, with these, by number."""
        left: list[Any] = []
        if self.survey.mutates:
            tree, left = tree
        result = _timed_result(mode, tree)
        result.inputs = {str(number): tensor for number, tensor in enumerate(left)}
        return result

    def sampled(
        self, mode: str, draw: Draw, grad_seed: int, sample_seed: int, samples: Any
    ) -> None:
        """The same for samples of what a call returned. Inputs were written anew before it; where
        the reference is random, it was seeded; where it goes by buffers, these were put back."""
        with claimed():
            got = self._with_inputs(mode, samples)
        self._examine(mode, draw, grad_seed, got, sample_seed)

    def _examine(
        self, mode: str, draw: Draw, grad_seed: int, got: Result, sample_seed: int | None = None
    ) -> None:
        grad = None if mode in FORWARD_MODES else GradDraw(seed=grad_seed)
        try:
            expected = self.reference.expected(
                Trial(calls=(Call(draw=draw, grad=grad),)), oracle=not self.survey.random
            )
            if sample_seed is not None:
                expected = Expected(
                    played=_sampled(expected.played, sample_seed),
                    oracle=expected.oracle and _sampled(expected.oracle, sample_seed),
                )
                with claimed():
                    got = _cut(got, expected.played.results[0])
            wrong = self._wrong_timed(got, expected, output=mode != "backward")
            del expected
            self.wrong_reveal = self.wrong_reveal or wrong
        finally:
            self.reference.release()

    def _wrong_timed(self, got: Result, expected: Expected, *, output: bool) -> str | None:
        """What is wrong about a timed call: its output, where it gave one, and its gradients."""
        ours = expected.played.results[0]
        true = expected.oracle.results[0] if expected.oracle else None
        found = self.rules.output(got.output, ours.output, true and true.output) if output else []
        got.carries = ours.carries
        found = [*found, *self.rules.grads(got, ours, true)]
        if self.survey.mutates:  # by place: the worker gives no names
            got.inputs = dict(zip(ours.inputs, got.inputs.values(), strict=False))
            ours = replace(ours, grad_outputs={}, buffers={})
            found += self.rules.untouched(got, ours, mutates=True)
        return next((check.problem for check in found if check.problem), None)


def _timed_result(mode: str, tree: Any) -> Result:
    """What a timed call of `mode` returned. Raises `ValueError` or `TypeError`."""
    output = grads = tree
    if mode == "forward_backward":
        output, grads = tree
    return Result(output=output, grads={} if mode in FORWARD_MODES else dict(grads))


def _sampled(played: Played, seed: int) -> Played:
    """Outputs, gradients and inputs reduced to the values at the sampled places."""

    def take(value: Any) -> Any:
        return map_tensors(lambda tensor: sample(tensor, seed), value)

    results = [
        replace(
            result,
            output=take(result.output),
            grads=take(result.grads),
            inputs=take(result.inputs),
        )
        for result in played.results
    ]
    return Played(results=results)


def _cut(got: Result, wanted: Result) -> Result:
    """Samples without the zeros that they were filled up with (`stack`); by path, for a dict may
    be of another order."""

    def cut(theirs: Any, ours: Any) -> Any:
        lengths = {path: len(tensor) for path, tensor in walk_tensors(ours, "")}
        paths = iter([path for path, _ in walk_tensors(theirs, "")])
        return map_tensors(lambda tensor: tensor[: lengths.get(next(paths), len(tensor))], theirs)

    return replace(got, output=cut(got.output, wanted.output), grads=cut(got.grads, wanted.grads))
