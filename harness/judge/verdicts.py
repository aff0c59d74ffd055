"""From failures to verdicts: every way out of an evaluation.

A step that cannot go on raises `Ended`; what went wrong in a worker becomes one here.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import traceback
from collections.abc import Iterator

import torch

from harness.errors import ProblemError, no_cpu_memory
from harness.judge.checking import checks
from harness.judge.context import Context
from harness.judge.process.sandbox import (
    SourcesChanged,
    WorkerCrash,
    WorkerFault,
    WorkerLied,
    WorkerTimeout,
    printable,
)
from harness.judge.rows import Findings
from harness.judge.timing import baseline
from harness.records import Phase, Status, Verdict
from harness.shared import disk

#: What a worker's account of a failure means, whatever the phase.
_BY_KIND = {
    "contract": Status.CONTRACT_ERROR,
    "compile": Status.COMPILE_ERROR,
    "compiler_killed": Status.COMPILE_ERROR,
    "out_of_memory": Status.OUT_OF_MEMORY,
    "problem": Status.RUNTIME_ERROR,  # the judge itself has tried the reference
    "no_backward": Status.FORWARD_ONLY,
}
LITTLE_DEVICE_BYTES = 1 << 30  # CUDA and its libraries take half of that


class Ended(Exception):
    """The evaluation ends here, with this verdict."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


class Progress:
    """Which phase an evaluation is in, and how long it has been in each."""

    def __init__(self) -> None:
        self.now = Phase.FIND
        self._seconds: dict[Phase, float] = {}
        self._since = time.monotonic()

    def enter(self, phase: Phase) -> None:
        """Leave the phase that is on, for `phase`."""
        now = time.monotonic()
        self._seconds[self.now] = self._seconds.get(self.now, 0.0) + now - self._since
        self.now, self._since = phase, now

    def seconds(self, *phases: Phase) -> float | None:
        """Seconds spent in `phases`, all visits together; None if none was entered."""
        self.enter(self.now)
        met = [self._seconds[phase] for phase in phases if phase in self._seconds]
        return sum(met) if met else None


@contextlib.contextmanager
def verdicts(phase: Progress, context: Context, name: str, found: Findings) -> Iterator[None]:
    """Turn what a worker did into `Ended`."""
    try:
        yield
    except WorkerFault as fault:
        with contextlib.suppress(WorkerLied):
            found.note_builds(fault.builds)
        _log(context, name, fault.text)
        status = _BY_KIND.get(fault.kind)
        if fault.kind == "machine" and (isinstance(fault, SourcesChanged) or broken(context)):
            status = Status.HARNESS_ERROR
        if status is None:
            status = Status.LOAD_ERROR if phase.now is Phase.BUILD else Status.RUNTIME_ERROR
        where = Phase.BUILD if status is Status.COMPILE_ERROR else phase.now
        raise Ended(verdict(status, where, str(fault))) from fault
    except checks.Mistake as mistake:
        raise Ended(verdict(mistake.status, phase.now, str(mistake))) from mistake
    except WorkerTimeout as error:
        raise Ended(verdict(Status.TIMEOUT, phase.now, f"{phase.now.value}: {error}")) from error
    except WorkerCrash as error:
        raise Ended(verdict(Status.CRASH, phase.now, f"{phase.now.value}: {error}")) from error
    except WorkerLied as error:
        raise Ended(
            verdict(Status.REJECTED, phase.now, f"the answer does not hold: {error}")
        ) from error
    except ProblemError as error:
        raise Ended(verdict(Status.REFERENCE_ERROR, phase.now, str(error))) from error
    except baseline.BaselineError as error:
        text = f"the reference could not be measured again: {error}"
        raise Ended(verdict(Status.HARNESS_ERROR, phase.now, text)) from error
    except Ended:
        raise
    except Exception as error:  # of the harness's own: other evaluations go on
        text = "no memory left for the judge's reference beside the worker; use a smaller --size"
        if not (isinstance(error, torch.OutOfMemoryError) or no_cpu_memory(error)):
            text = f"the harness failed, see the log: {error!r}"
        _log(context, name, traceback.format_exc())
        raise Ended(verdict(Status.HARNESS_ERROR, phase.now, text)) from error


def broken(context: Context) -> bool:
    """Whether the judge, too, finds a disk full or the device out of use. That a worker says so is
    a claim, and what is no fault of a solution's is left out of what its author is measured by."""
    if disk.full(context.cache, tempfile.gettempdir()):
        return True
    if context.device.type != "cuda":
        return False
    try:
        torch.ones(1, device=context.device.torch).add_(1)
        torch.cuda.synchronize()
        return torch.cuda.mem_get_info()[0] < LITTLE_DEVICE_BYTES
    except RuntimeError:
        return True


def _log(context: Context, name: str, text: str) -> None:
    """Add to the log of an evaluation. Where its disk is full, the verdict stands without."""
    with contextlib.suppress(OSError), context.log(name).open("a", errors="replace") as log:
        log.write(text)


def verdict(status: Status, phase: Phase, message: str) -> Verdict:
    """A verdict whose message is one line of bearable length, without control characters: a part
    of it may be a worker's."""
    line = printable(" ".join(message.split())[:1000])
    return Verdict(status=status, phase=phase, message=line)
