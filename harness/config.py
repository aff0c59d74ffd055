"""YAML preset + flags -> `Settings`. An unknown key or a bad value is a `RequestError`.

Covers: nearest names, the digest that rows carry. Not types and ranges (setting_rules.py), nor
whether this machine can do what is asked (judge/device.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.errors import RequestError, hint, nearest
from harness.records import MODES
from harness.setting_rules import RULES, VARIATIONS, checked

PRESETS = Path(__file__).resolve().parent.parent / "configs"

#: Left out of the digest: what bears on no figure, or stands in the row. What the first two came to
#: is in its columns, and in its flags what an earlier run had found and which headers a build had.
NOT_IN_DIGEST = (
    *("device", "size", "keep_baseline", "lean_builds"),
    *("warm_workers", "max_jobs", "reserved_cores"),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that says how an evaluation is done. Raises `RequestError` for a bad value.

    Lists of names, as `DTYPES`, are those of setting_rules.py.
    """

    device: str = "auto"
    """`auto` (the GPU with most memory free, else the CPU), `cpu`, `cuda` (that GPU too) or
    `cuda:N`."""

    dtype: str = "float32"
    """Type of the floating-point inputs and weights: one of `DTYPES`."""

    size: str = "auto"
    """Name of a problem's size; `auto` is `smoke` on a CPU, and on a GPU the largest whose
    reference takes at most 45 % of the memory (harness/footprint.py). `fit` halves the problem's
    constants until it fits the device; `batch_size=16,dim=1024` sets them outright."""

    quick: bool = False
    """A first look: the backward is not checked and what the device can do is not measured, epochs
    are short. Rows have the flag `quick`; where a backward is asked for, `forward_only` is all
    that can be had."""

    trials: int = 5
    """Correctness trials, each with inputs from a fresh secret seed."""

    variations: tuple[str, ...] = VARIATIONS
    """What is done to drawn inputs, taken in turn over the trials: some of `VARIATIONS`."""

    layouts: tuple[str, ...] = ("strided",)
    """How inputs lie in memory, tried beside contiguous: some of `LAYOUTS`; empty: nothing."""

    huge: bool = False
    """Whether the problem's size `huge` is checked too, where it fits: 32-bit indices overflow."""

    require_views: bool = False
    """Whether a solution that raises for what is not contiguous fails; else that is a flag."""

    modes: tuple[str, ...] = MODES
    """What is timed: some of `records.MODES`; empty: solutions are checked only."""

    compile_baseline: tuple[str, ...] = ("default",)
    """Modes of `torch.compile` timed as baseline: some of `COMPILE_MODES`; empty: none."""

    keep_baseline: bool = True
    """Whether what an earlier run found out about a reference and this device is used where eager
    still takes what it took (judge/timing/kept.py). `--fresh` turns it off."""

    epochs_min: int = 5
    """Epochs (blocks on fresh allocations) timed at least, per mode; one has no interval."""

    epochs_max: int = 30
    """Epochs timed at most, per mode."""

    half_width: float = 0.0025
    """Relative half-width of the 95 % interval at which timing stops; 0.0025 is 0.25 %."""

    mode_budget_s: float = 20.0
    """Seconds after which timing of one mode stops, however wide its interval."""

    cpu_mode_budget_s: float = 2.0
    """The same on a CPU, where intervals seldom get as narrow as `half_width`."""

    build_timeout_s: float = 600.0
    """Seconds that a build may take."""

    import_timeout_s: float = 120.0
    """Seconds of it that a solution's file, or ModelNew's constructor, may run on its own, without
    a compiler or another process that it has started."""

    start_timeout_s: float = 120.0
    """Seconds that a worker may take to start."""

    call_timeout_s: float = 120.0
    """Seconds that one order to a worker (a forward, a backward) may take."""

    measure_memory: bool = True
    """Whether peak memory is measured, in a pass of its own."""

    profile: bool = True
    """Whether one pass records which kernels ran; without it, nothing is `not_exercised`."""

    require_backward: bool = True
    """Whether a solution without backward is `forward_only` rather than `pass`."""

    require_own_kernels: bool = False
    """Whether a solution of which no kernel of its own ran is `not_exercised`, though right."""

    sandbox: str = "auto"
    """Isolation of the worker: `strict`, `default`, or `auto` (the best that works here)."""

    error_ratio_limit: float | None = None
    """Largest error against fp64, in units of eager PyTorch's own; None: by dtype."""

    allow_tf32: bool = False
    """Whether both sides may use TF32 for float32 matmul and convolution."""

    threads: int | None = None
    """CPU threads of a worker; None: every core that this process may use."""

    cuda_arch: str | None = None
    """Architectures to build for, such as "9.0" or "8.0;9.0a"; None: the device's own."""

    lean_builds: bool = True
    """Whether a build is tried against a few of torch's headers before all of them."""

    warm_workers: bool = True
    """Whether workers are forked of a process that has imported torch (`forkserver`)."""

    max_jobs: int | None = None
    """Compilers that run at once; None: by cores and memory."""

    reserved_cores: int = 4
    """Cores that builds keep off, on a machine with a GPU and at least 8 cores; 0, and elsewhere:
    no build runs while anything is timed."""

    def __post_init__(self) -> None:
        for key in RULES:
            object.__setattr__(self, key, checked(key, getattr(self, key)))
        if self.epochs_min > self.epochs_max:
            raise RequestError(
                f"epochs_min is {self.epochs_min}: it must not be above epochs_max, "
                f"which is {self.epochs_max}"
            )
        if self.require_own_kernels and not self.profile:
            raise RequestError(
                "require_own_kernels needs profile: true, which tells whose kernels ran"
            )

    @property
    def digest(self) -> str:
        """12 hex digits over every field that bears on results (see `NOT_IN_DIGEST`)."""
        return hashlib.sha256(json.dumps(self._kept, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def told(self) -> str:
        """What of that is not as by default: `trials=3 modes=forward`; `default` where all is."""
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        changed = {k: v for k, v in self._kept.items() if v != usual[k]}
        return " ".join(f"{key}={_text(value)}" for key, value in changed.items()) or "default"

    @property
    def _kept(self) -> dict[str, object]:
        fields = dataclasses.asdict(self)
        return {key: value for key, value in fields.items() if key not in NOT_IN_DIGEST}


def _text(value: object) -> str:
    """A setting's value, as a preset states it but for lists: `a,b`."""
    if isinstance(value, tuple):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)


KEYS = tuple(field.name for field in dataclasses.fields(Settings))


def load(path: str | Path | None, overrides: Mapping[str, object]) -> Settings:
    """The settings of a preset (a file, or the name of one in configs/; None: the defaults).

    `overrides` (command-line flags; None means that the flag was not given) win over the
    preset, and what neither states is a default. Raises `RequestError`.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    _refuse_unknown(given, "setting")
    preset = {} if path is None else _preset(_find(path))
    return Settings(**{**preset, **given})  # type: ignore[arg-type]


def _find(path: str | Path) -> Path:
    file = Path(path)
    names = {preset.stem: preset for preset in sorted(PRESETS.glob("*.yaml"))}
    if not os.path.isfile(file):  # which, unlike Path.is_file, raises for no name
        file = names.get(str(path), file)
    if not os.path.isfile(file):
        raise RequestError(f"no preset {str(path)!r}: {hint(file.stem, names, 'presets')}")
    return file


def _preset(path: Path) -> dict[str, object]:
    """The keys that a YAML file states, checked. Raises `RequestError` that names the file."""
    try:
        text = path.read_text(encoding="utf-8")
        root, values = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise RequestError(f"{path}: not readable as YAML: {error}") from None
    if not isinstance(root, yaml.MappingNode):
        if values is None:
            return {}
        raise RequestError(f"{path}: must be lines of `key: value`")
    names = [str(key.value) for key, _ in root.value]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RequestError(f"{path}: {', '.join(twice)} is stated twice: keep one")
    _refuse_unknown(values, f"{path}: key")
    try:
        return {key: checked(key, value) for key, value in values.items()}
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from None


def _refuse_unknown(values: Mapping[str, object], what: str) -> None:
    for key in map(str, values):
        if key not in KEYS:
            near = f" (nearest: {', '.join(found)})" if (found := nearest(key, KEYS)) else ""
            raise RequestError(f"{what} {key!r} is unknown{near}; valid: {', '.join(KEYS)}")
