"""How long processes were on a processor, and whether that can be known.

A parent that ignores SIGCHLD makes the time of its children vanish with them, and what only lived
between two looks was never seen. So a span is known only where no thread of the processes ended,
and none was made anywhere in this pid namespace, between the looks at its ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Usage:
    """One look. `threads_ns`: nanoseconds on a processor by thread. `newest`: the last process or
    thread that was made; None where nothing tells."""

    threads_ns: dict[int, int]
    newest: str | None

    @classmethod
    def of(cls, pids: Iterable[int]) -> Usage:
        """That of all threads of the processes `pids`."""
        threads_ns: dict[int, int] = {}
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                        threads_ns[int(thread)] = int(file.read().split()[0])
        return cls(threads_ns=threads_ns, newest=_newest())

    def busy_s(self, later: Usage, *, trusted: bool) -> float | None:
        """Seconds on a processor from this look to `later`; None where there may have been more,
        unless the processes are `trusted` not to hide any."""
        same = self.threads_ns.keys() == later.threads_ns.keys()
        known = same and self.newest is not None and self.newest == later.newest
        if not self.threads_ns or not later.threads_ns or not (trusted or known):
            return None
        return (sum(later.threads_ns.values()) - sum(self.threads_ns.values())) / 1e9


def _newest() -> str | None:
    with contextlib.suppress(OSError), open("/proc/loadavg") as file:
        return file.read().split()[-1]
    return None
