"""The frozen records that flow from file to row.

`Problem`, `Solution` and settings go in; `Check`, `Timing`, `Memory` and `Verdict` are what
an evaluation finds; `Row` is the flat result that becomes a CSV line. Units are in names
(`_ms`, `_mib`, `_s`); missing is `None`. `Timing` and the raw samples that it keeps are in
timings.py.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum

from harness.timings import Block as Block
from harness.timings import Epoch as Epoch
from harness.timings import Timing as Timing

#: Timed modes, in the order of the columns. `forward` runs without grad; `forward_train`
#: with; `backward` is `torch.autograd.grad` alone; `forward_backward` is both in one region.
MODES = ("forward", "forward_train", "backward", "forward_backward")
QUICK = "quick"  # the flag of a row for which the backward was left out


class Status(str, Enum):
    """The verdict on one solution. Only `PASS` credits a speedup (`FORWARD_ONLY`: forward's)."""

    PASS = "pass"
    FORWARD_ONLY = "forward_only"
    WRONG_OUTPUT = "wrong_output"
    WRONG_GRADIENT = "wrong_gradient"
    COMPILE_ERROR = "compile_error"
    LOAD_ERROR = "load_error"
    CONTRACT_ERROR = "contract_error"
    RUNTIME_ERROR = "runtime_error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REJECTED = "rejected"
    NOT_EXERCISED = "not_exercised"
    SKIPPED = "skipped"
    REFERENCE_ERROR = "reference_error"
    HARNESS_ERROR = "harness_error"
    BUILT = "built"

    @property
    def fine(self) -> bool:
        """True where the run as a whole may still exit with status 0."""
        return self in (Status.PASS, Status.SKIPPED, Status.BUILT)


class Phase(str, Enum):
    """Where in the evaluation a verdict was met."""

    FIND = "find"
    BUILD = "build"
    LOAD = "load"
    FORWARD = "forward"
    BACKWARD = "backward"
    TIME = "time"
    MEMORY = "memory"
    PROFILE = "profile"
    AUDIT = "audit"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem file, as text. `digest` is the SHA-256 of the source, 16 hex digits."""

    name: str
    path: str
    source: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A solution file, as text; the judge never imports it.

    `source` is Python: the file itself, or the block taken from a model's answer, which
    `note` then names. `devices` are the device types that it can run on, `packages` the kernel
    languages that it imports (modules of `syntax.PACKAGES`). `fault` is set where the text
    cannot be a solution at all (a syntax error, no ModelNew): a contract error.
    """

    name: str
    problem: str
    path: str
    source: str
    digest: str
    devices: tuple[str, ...]
    packages: tuple[str, ...] = ()
    note: str = ""
    fault: str | None = None

    @property
    def file_name(self) -> str:
        """What a worker calls the file in tracebacks and diagnostics: Python, whatever the
        answer that it was taken from was called."""
        return self.path.rsplit("/", 1)[-1].rsplit(".", 1)[0] + ".py"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a solution, where, and one line that says what to do."""

    status: Status
    phase: Phase
    message: str = ""

    @property
    def credited_modes(self) -> tuple[str, ...]:
        """The modes whose speedup counts."""
        if self.status is Status.PASS:
            return MODES
        return ("forward",) if self.status is Status.FORWARD_ONLY else ()


@dataclass(frozen=True, kw_only=True)
class Check:
    """One comparison of a tensor (output or gradient) with the reference.

    `path` names the leaf: `output`, `output[1]`, `grad predictions`. Errors are absolute and
    relative maxima over all elements; `error_ratio` is the solution's rms error against the
    fp64 reference over that of eager PyTorch at the declared dtype (None where there is no
    oracle). `problem` is None if the leaf passed, else the one-line reason, hint included.
    """

    path: str
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    error_ratio: float | None = None
    problem: str | None = None

    @property
    def passed(self) -> bool:
        return self.problem is None


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Peak memory of one side, MiB: what a call needs beyond its inputs, plus the inputs.
    `hidden_mib` of it was held around PyTorch's allocator and seen from outside."""

    inference_peak_mib: float | None = None
    training_peak_mib: float | None = None
    hidden_mib: float | None = None


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the row was measured on; every field is a CSV column."""

    device_name: str
    device_uuid: str | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str
    python: str
    host: str
    cpu_threads: int
    sm_clock_mhz: int | None = None
    power_limit_w: float | None = None
    precision: str = ""


@dataclass(frozen=True, kw_only=True)
class ModeResult:
    """One mode's columns.

    `speedup` is over eager, `compile_speedup` over the faster `torch.compile` (itself
    `compiled_speedup` over eager); each with the bounds of its 95 % interval. The limit
    fractions are of the physical limit. `noise` is how far an A/A test of the reference on
    this device came to lie from 1, its interval included. `wall_speedup` counts launches.
    The limit is that of `least_bytes` to move and `least_flops` to do in one call, at the rates
    of the device; `bound` says which of them takes longer: `memory` or `compute`.
    """

    reference_ms: float | None = None
    solution_ms: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    compile_speedup: float | None = None
    compile_low: float | None = None
    compile_high: float | None = None
    compiled_speedup: float | None = None
    limit_fraction: float | None = None
    reference_limit_fraction: float | None = None
    least_bytes: int | None = None
    least_flops: int | None = None
    bound: str | None = None
    wall_speedup: float | None = None
    noise: float | None = None
    epochs: int | None = None
    dropped: int | None = None


MODE_FIELDS = tuple(f.name for f in dataclasses.fields(ModeResult))
#: What a verdict credits; left out of a row where it does not.
CREDITED_FIELDS = (
    "speedup",
    "low",
    "high",
    "compile_speedup",
    "compile_low",
    "compile_high",
    "wall_speedup",
)

IDENTITY_COLUMNS = (
    "run_id",
    "time",
    "problem",
    "problem_digest",
    "solution",
    "solution_digest",
    "size",
    "dtype",
    "settings_digest",
    "harness_version",
    "schema_version",
)
ENVIRONMENT_COLUMNS = tuple(f.name for f in dataclasses.fields(Environment))
VERDICT_COLUMNS = ("status", "phase", "message", "log")
MODE_COLUMNS = tuple(f"{mode}_{field}" for mode in MODES for field in MODE_FIELDS)
PEAK_COLUMNS = ("inference_peak_mib", "training_peak_mib")
#: Fields of a row that are columns as they are.
PLAIN_COLUMNS = (
    "error_ratio",
    "own_share",
    "isolation",
    "settings",
    "build_s",
    "check_s",
    "measure_s",
    "total_s",
)
TAIL_COLUMNS = (
    *PEAK_COLUMNS,
    *(f"reference_{column}" for column in PEAK_COLUMNS),
    *PLAIN_COLUMNS,
    "flags",
)
#: Every column of a results CSV, in order; the same names are the keys of `--json`.
COLUMNS = IDENTITY_COLUMNS + ENVIRONMENT_COLUMNS + VERDICT_COLUMNS + MODE_COLUMNS + TAIL_COLUMNS

Value = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One result: all that is published about one solution on one device.

    `modes` holds what was measured, credited or not: a row whose verdict does not credit a
    mode keeps its times but not its speedup (see `flat`). Of `total_s`, `check_s` went into
    checking outputs and gradients, `measure_s` into times, memory and provenance. `settings` says
    what was not as by default, such as `trials=3`.
    """

    run_id: str
    time: str
    problem: str
    problem_digest: str
    solution: str
    solution_digest: str
    size: str
    dtype: str
    settings_digest: str
    harness_version: str
    schema_version: int
    environment: Environment
    verdict: Verdict
    log: str = ""
    modes: dict[str, ModeResult] = dataclasses.field(default_factory=dict)
    memory: Memory | None = None
    reference_memory: Memory | None = None
    error_ratio: float | None = None
    own_share: float | None = None
    isolation: str | None = None
    settings: str | None = None
    build_s: float | None = None
    check_s: float | None = None
    measure_s: float | None = None
    total_s: float | None = None
    flags: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        """True where the run as a whole may still exit with status 0: a quick look says of a
        right solution that its forward is."""
        status = self.verdict.status
        return status.fine or (status is Status.FORWARD_ONLY and QUICK in self.flags)

    def flat(self) -> dict[str, Value]:
        """The row as `COLUMNS` -> value. Speedups that are not credited are left out."""
        values: dict[str, Value] = {c: getattr(self, c) for c in IDENTITY_COLUMNS}
        values |= {c: getattr(self.environment, c) for c in ENVIRONMENT_COLUMNS}
        values |= {
            "status": self.verdict.status.value,
            "phase": self.verdict.phase.value,
            "message": self.verdict.message,
            "log": self.log,
        }
        for mode in MODES:
            result = self.modes.get(mode, ModeResult())
            if mode not in self.verdict.credited_modes:
                result = dataclasses.replace(result, **dict.fromkeys(CREDITED_FIELDS))
            values |= {f"{mode}_{f}": getattr(result, f) for f in MODE_FIELDS}
        own, reference = self.memory or Memory(), self.reference_memory or Memory()
        values |= {c: getattr(own, c) for c in PEAK_COLUMNS}
        values |= {f"reference_{c}": getattr(reference, c) for c in PEAK_COLUMNS}
        values |= {c: getattr(self, c) for c in PLAIN_COLUMNS}
        return values | {"flags": " ".join(self.flags)}
