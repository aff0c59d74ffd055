"""A solution under examination: trials are ordered, answered, and held against the reference.

The worker answers first; then the expected results are computed, compared and dropped. What is
tried is in passes.py, how results are compared in rules.py, what the reference allows in
survey.py, what becomes of timed calls in timed.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from harness.judge.checking.passes import PASSES, Pass
from harness.judge.checking.rules import Rules
from harness.judge.checking.survey import AS_GIVEN, fit, label, variations
from harness.judge.checking.timed import TimedCalls
from harness.judge.process.sandbox import Worker, WorkerCrash, WorkerFault, WorkerTimeout, claimed
from harness.judge.reference import Expected
from harness.records import Check, Phase, Status
from harness.shared.draws import Draw, GradDraw
from harness.shared.trial import Played, Result, Trial


class Mistake(Exception):
    """A check failed: the verdict that it gives, and one line of what is wrong."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(kw_only=True)
class Judged(TimedCalls):
    """A worker's solution under examination, at the size of `reference`."""

    worker: Worker
    worst_error_ratio: float | None = None

    def __post_init__(self) -> None:
        self.flags += [f"left_out:{name}" for _, name in sorted(self.survey.left_out)]
        if not self.survey.finite:
            self.flags.append("reference_not_finite")

    def run(self, phase: Phase, *, trials: int, note: Callable[[str], None]) -> None:
        """The passes of a phase; `trials` is a `Stage`'s.

        Raises `Mistake` for the first that fails, and as `Worker.ask` does.
        """
        ask = self.survey.ask(
            phase,
            trials,
            variations(self.reference, self.settings),
            self.settings,
        )
        for check in PASSES:
            if phase in check.phases and (check.graded or not trials):
                for number, trial in enumerate(check.trials(ask), 1):
                    note(f"{phase.value}: {check.name} {number}")
                    if not self._accepts(phase, check, trial):
                        break

    def _accepts(self, phase: Phase, check: Pass, trial: Trial) -> bool:
        """Try one trial. False where the solution refuses it, which is a flag, not a failure."""
        if (phase, label(check, trial)) in self.survey.left_out:
            return True
        try:
            self._try(check, trial)
        except WorkerFault as fault:
            if check.refusal and not self.settings.require_views and self.refused(fault):
                self.flags.append(check.refusal)
                return False
            if fault.kind == "no_backward" and not check.graded:
                raise Mistake(Status.WRONG_GRADIENT, _said(check, trial, str(fault))) from fault
            fault.args = (_said(check, trial, str(fault)),)
            raise
        except (WorkerCrash, WorkerTimeout) as error:
            error.args = (_said(check, trial, str(error)),)
            raise
        return True

    def refused(self, fault: WorkerFault) -> bool:
        """Whether the solution raised of its own accord, and did not lose the device."""
        if fault.kind != "exception":
            return False
        try:
            self.worker.ask("ping", timeout_s=self.settings.call_timeout_s)
        except WorkerFault:
            return False
        return True

    def _try(self, check: Pass, trial: Trial) -> None:
        """Order a trial, compute what was expected of it, compare."""
        message = self.worker.ask(
            "play",
            timeout_s=self.settings.call_timeout_s,
            max_tensor_bytes=self.byte_limit,
            trial=trial.to_json(),
        )
        expected: Expected | None = None
        try:
            with claimed():
                played = Played.from_trees(message.trees, len(trial.calls))
            precise = check.precise and not self.survey.random
            expected = self.reference.expected(trial, oracle=precise)
            if precise and expected.oracle is None:
                self.flags.append(f"no_float64:{self.reference.instance.size}")
            varied = trial.calls[0].draw.variation != AS_GIVEN
            rules = self.rules.varied if varied else self.rules
            wrong, ratio = self._wrong(rules, played, expected, trial)
            if wrong and varied:
                if not fit(expected, self.rules):  # two passes over results: only where it matters
                    self.flags.append(f"left_out:{trial.calls[0].draw.variation}")
                    return
                wrong, ratio = self._wrong(rules, played, expected, trial, self._usual(trial))
            if wrong and not precise and not self.survey.random:
                # Where eager itself is off, honest code is too: the oracle says how far.
                expected.oracle = self.reference.oracle(trial, expected.played)
                wrong, ratio = self._wrong(rules, played, expected, trial)
            if ratio is not None:  # of the comparison that decides
                self.worst_error_ratio = max(self.worst_error_ratio or 0.0, ratio)
            if wrong:
                status, problem = wrong
                raise self._mistake(status, _said(check, trial, problem))
            if trial.repeats and self.rules.spread(played) > 2 * self.rules.spread(expected.played):
                self.flags.append("varies")
        finally:
            del expected
            message.close()
            self.reference.release()

    def _usual(self, trial: Trial) -> Result:
        """What the reference gives for inputs as given."""
        grad = trial.calls[0].grad
        return self.reference.call(Draw(seed=1), grad and GradDraw(seed=1))

    def _mistake(self, status: Status, text: str) -> Mistake:
        if not self.survey.random:
            return Mistake(status, text)
        return Mistake(
            Status.CONTRACT_ERROR,
            "the reference draws random numbers; a solution can only be judged if it draws the "
            f"same ones after the same torch.manual_seed, in the same order. {text}",
        )

    def _wrong(
        self,
        rules: Rules,
        got: Played,
        expected: Expected,
        trial: Trial,
        usual: Result | None = None,
    ) -> tuple[tuple[Status, str] | None, float | None]:
        """The first thing that is wrong and the verdict that it gives; the worst error ratio."""
        worst: float | None = None
        for status, check in self._checks(rules, got, expected, trial, usual):
            if check.error_ratio is not None:
                worst = max(worst or 0.0, check.error_ratio)
            if check.problem is not None:
                return (status, check.problem), worst
        return None, worst

    def _checks(
        self, rules: Rules, got: Played, expected: Expected, trial: Trial, usual: Result | None
    ) -> Iterator[tuple[Status, Check]]:
        """All comparisons of a trial: call by call, then what is left at its end. With `usual`,
        what has vanished beside it is judged by its size."""
        wanted, true = expected.played, expected.oracle
        last = len(trial.calls) - 1
        for i, (theirs, ours) in enumerate(zip(got.results, wanted.results, strict=True)):
            truth = true.results[i] if true else None
            grad = trial.calls[i].grad
            expanded = grad is not None and grad.layout == "expanded"
            outputs: Iterable[Check] = rules.output(
                theirs.output, ours.output, truth and truth.output
            )
            grads = rules.grads(theirs, ours, truth, wanted.results[i - 1] if expanded else None)
            if usual is not None:
                outputs = rules.forgiving(outputs, theirs, ours, usual)
                grads = rules.forgiving(grads, theirs, ours, usual)
            for check in outputs:
                yield Status.WRONG_OUTPUT, _in_call(check, i, trial)
            for check in grads if not trial.accumulate or i == last else ():
                yield Status.WRONG_GRADIENT, _in_call(check, i, trial)
            for check in rules.untouched(theirs, ours, mutates=self.survey.mutates):
                yield Status.WRONG_OUTPUT, _in_call(check, i, trial)
        for check in rules.kept(got, wanted):
            yield Status.WRONG_OUTPUT, check
        for check in rules.state(got, wanted, constants=self.survey.constants):
            yield Status.WRONG_OUTPUT, check


def _said(check: Pass, trial: Trial, text: str) -> str:
    """`text` with what was tried, where that is more than calls with inputs as given."""
    variation = trial.calls[0].draw.variation
    varied = "" if variation == AS_GIVEN else f"for inputs varied as {variation}"
    return ": ".join(part for part in (check.says, varied, text) if part)


def _in_call(check: Check, number: int, trial: Trial) -> Check:
    """`check` with a word on which of several calls it is about."""
    if check.problem is None or len(trial.calls) == 1:
        return check
    again = number and trial.calls[number] == trial.calls[0]
    text = f"call {number + 1}" + (", on the inputs of call 1 again" if again else "")
    return replace(check, problem=f"{text}: {check.problem}")
