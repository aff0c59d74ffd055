"""What the value of each setting must be, in words and as a test: `RULES`."""

from __future__ import annotations

import re
from collections.abc import Callable

from harness.errors import RequestError
from harness.records import MODES
from harness.shared.constants import STATED

DTYPES = ("float32", "float16", "bfloat16", "float64")
VARIATIONS = ("as_given", "scaled", "heavy_tailed", "region", "signs", "large", "small")
LAYOUTS = ("strided", "misaligned")
COMPILE_MODES = ("default", "max-autotune", "reduce-overhead")  # of torch.compile
SANDBOXES = ("auto", "default", "strict")

Rule = tuple[str, Callable[[object], bool]]


def _whole(low: int, high: int) -> Rule:
    return f"a whole number from {low} to {high}", lambda v: type(v) is int and low <= v <= high


def _number(low: float, high: float) -> Rule:
    # NaN is in no range.
    return f"a number from {low:g} to {high:g}", lambda v: type(v) is float and low <= v <= high


def _one_of(names: tuple[str, ...]) -> Rule:
    return f"one of {', '.join(names)}", lambda value: value in names


def _some_of(names: tuple[str, ...], *, least: int = 1) -> Rule:
    def allowed(value: object) -> bool:
        if not isinstance(value, tuple) or not all(item in names for item in value):
            return False
        return len(set(value)) == len(value) >= least

    some = "a list of some of" if least else "a list, which may be empty, of some of"
    return f"{some} {', '.join(names)}, each once", allowed


def _text(pattern: str, wanted: str) -> Rule:
    return wanted, lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value))


def _or_none(rule: Rule) -> Rule:
    return f"{rule[0]}, or null", lambda value: value is None or rule[1](value)


_FLAG: Rule = ("true or false", lambda value: isinstance(value, bool))
_SECONDS = _number(0.1, 86400.0)
_ARCH = r"\d{1,2}\.\d[af]?(\+PTX)?"

#: Key -> what its value must be, in words and as a test.
RULES: dict[str, Rule] = {
    "device": _text(r"auto|cpu|cuda(:\d{1,3})?", "auto, cpu, cuda or cuda:N"),
    "dtype": _one_of(DTYPES),
    "size": _text(
        rf"\w[\w.-]*|{STATED.pattern}",
        "auto, fit, the name of one of the problem's sizes, or constants such as batch_size=16",
    ),
    "quick": _FLAG,
    "trials": _whole(1, 1000),
    "variations": _some_of(VARIATIONS),
    "layouts": _some_of(LAYOUTS, least=0),
    "huge": _FLAG,
    "require_views": _FLAG,
    "modes": _some_of(MODES, least=0),
    "compile_baseline": _some_of(COMPILE_MODES, least=0),
    "keep_baseline": _FLAG,
    "epochs_min": _whole(2, 1000),
    "epochs_max": _whole(2, 1000),
    "half_width": _number(0.0001, 1.0),
    "mode_budget_s": _SECONDS,
    "cpu_mode_budget_s": _SECONDS,
    "build_timeout_s": _SECONDS,
    "import_timeout_s": _SECONDS,
    "start_timeout_s": _SECONDS,
    "call_timeout_s": _SECONDS,
    "measure_memory": _FLAG,
    "profile": _FLAG,
    "require_backward": _FLAG,
    "require_own_kernels": _FLAG,
    "sandbox": _one_of(SANDBOXES),
    "error_ratio_limit": _or_none(_number(1.0, 1e6)),
    "allow_tf32": _FLAG,
    "threads": _or_none(_whole(1, 4096)),
    "cuda_arch": _or_none(
        _text(rf"{_ARCH}([; ]{_ARCH})*", 'quoted architectures such as "9.0" or "8.0;9.0a"')
    ),
    "lean_builds": _FLAG,
    "warm_workers": _FLAG,
    "max_jobs": _or_none(_whole(1, 4096)),
    "reserved_cores": _whole(0, 4096),
}
_FLOATS = tuple(key for key, rule in RULES.items() if rule[1](1.0))


def checked(key: str, value: object) -> object:
    """`value` if the rule of `key` allows it, with what YAML cannot say put right.

    Lists become tuples, and 20 may stand for 20.0. Raises `RequestError`.
    """
    wanted, allowed = RULES[key]
    right = tuple(value) if isinstance(value, list) else value
    if key in _FLOATS and not isinstance(value, bool):
        # YAML 1.1 reads 1e-3 as text: its floats need a dot.
        exponent = isinstance(value, str) and re.fullmatch(r"\d+[eE][+-]?\d+", value)
        if isinstance(value, int) or exponent:
            right = float(str(value))
    if not allowed(right):
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else repr(value)
        raise RequestError(f"{key} is {shown or 'empty'}: it must be {wanted}")
    return right
