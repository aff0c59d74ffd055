"""What the harness raises at its users: one line each, which says what to do.

    HarnessError
    ├── RequestError    the request was wrong                  exit status 2
    ├── MachineError    this machine cannot do it              exit status 3
    └── ProblemError    the problem file is at fault           becomes a `reference_error` row

What a solution does wrong is never an exception here: it is a verdict in a row.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import ClassVar

NEAREST = 5  # names suggested at most
_NO_CPU_MEMORY = re.compile(r"\[enforce fail at alloc_cpu\.cpp:\d+\] .*DefaultCPUAllocator: ")


class HarnessError(Exception):
    """Base of all. The message is squeezed to one line, whatever it quotes."""

    exit_status: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class RequestError(HarnessError):
    """An unknown name, a wrong setting, a file that is not there."""

    exit_status = 2


class MachineError(HarnessError):
    """No compiler, no device, no write permission: says what to install or change."""

    exit_status = 3


class ProblemError(HarnessError):
    """The problem file `path` is at fault, at `line` (1-based; None: the file as a whole)."""

    def __init__(self, reason: str, *, path: str, line: int | None = None) -> None:
        super().__init__(f"{path}:{line}: {reason}" if line else f"{path}: {reason}")
        self.reason = reason
        self.path = path
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled by its parts, so that it crosses to another process of a fleet."""
        return _problem_error, (self.reason, self.path, self.line)


def _problem_error(reason: str, path: str, line: int | None) -> ProblemError:
    return ProblemError(reason, path=path, line=line)


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Up to `NEAREST` of `names` that `name` may have meant, likeliest first.

    Case, `-`, `_` and spaces do not matter, and a part of a name finds the whole of it
    (`mseloss` finds `94_MSELoss`).
    """
    by_plain: dict[str, list[str]] = {}
    for candidate in sorted(names):
        by_plain.setdefault(_plain(candidate), []).append(candidate)
    wanted = _plain(name)
    close = difflib.get_close_matches(wanted, by_plain, n=NEAREST, cutoff=0.5)
    parts = [plain for plain in by_plain if wanted and wanted in plain and plain not in close]
    return [candidate for plain in close + parts for candidate in by_plain[plain]][:NEAREST]


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def hint(name: str, names: Iterable[str], what: str) -> str:
    """What to say after `name` was not found: the nearest of `names`, else all or how many.

    `what` names the kind in the plural, such as "problems".
    """
    known = sorted(names)
    if not known:
        return f"there are no {what}"
    if found := nearest(name, known):
        return f"nearest: {', '.join(found)}"
    shown = ", ".join(known[: 2 * NEAREST])
    more = f" and {len(known) - 2 * NEAREST} more" if len(known) > 2 * NEAREST else ""
    return f"the {what} are: {shown}{more}"


def no_cpu_memory(error: BaseException) -> bool:
    """Whether PyTorch's allocator of the CPU was refused memory, for which it has no type: it
    raises a plain RuntimeError that begins so (c10/core/impl/alloc_cpu.cpp)."""
    return type(error) is RuntimeError and bool(_NO_CPU_MEMORY.match(str(error)))
