"""A profile -> a table for a person, or plain data for a program."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.judge.profiling import Kernel, Profile
from harness.report.tables import NOTHING, TIME, one_line, quantity

LONGEST = 60  # characters of a kernel's name on a terminal; --json has all of it
SHOWN = 15  # kernels of a side, at most
SHARE = 0.995  # of a side's time, that is shown kernel by kernel


def screen(found: Profile) -> RenderableType:
    """One table for both sides, longest first."""
    title = f"{found.problem}, {found.mode}, size {found.size}, {found.dtype}, "
    title += f"on {found.device_name}"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("kernel", overflow="fold")
    nsight = any(k.occupancy is not None for k in (*found.reference, *found.candidate))
    more = ("memory", "compute", "occupancy") if nsight else ()
    for head in ("calls", "time", "share", "registers", "shared", *more):
        table.add_column(head, justify="right", no_wrap=True)
    for side, kernels in (("reference", found.reference), (found.solution, found.candidate)):
        total = quantity(sum(k.time_us for k in kernels) / 1e3, TIME)
        table.add_row(Text(one_line(side), style="bold"), "", total if kernels else NOTHING)
        count = _shown(kernels)
        for kernel in kernels[:count]:
            table.add_row(*map(Text, _cells(kernel)[: len(table.columns)]))
        if left := kernels[count:]:
            rest = quantity(sum(k.time_us for k in left) / 1e3, TIME)
            table.add_row(f"  {len(left)} more", "", rest)
    notes = [Text(f"{one_line(found.solution)}: {one_line(found.fault)}")] if found.fault else []
    if found.nsight:
        notes.append(Text(f"no figures of Nsight Compute: {one_line(found.nsight)}"))
    say = Text("Per call, of warm calls one after another: where time goes, not how fast it is.")
    return Group(Text(one_line(title), style="bold"), table, *notes, say)


def _shown(kernels: Sequence[Kernel]) -> int:
    """How many kernels, longest first, make up nearly all of the time."""
    sums = itertools.accumulate(kernel.share for kernel in kernels)
    return min(SHOWN, sum(before < SHARE for before in itertools.chain([0.0], sums)), len(kernels))


def _cells(kernel: Kernel) -> list[str]:
    return [
        f"  {short(kernel.name)}",
        f"{kernel.calls:.3g}",
        quantity(kernel.time_us / 1e3, TIME),
        f"{kernel.share:.0%}",
        NOTHING if kernel.registers is None else str(kernel.registers),
        NOTHING if kernel.shared_bytes is None else f"{kernel.shared_bytes / 1024:.3g} KiB",
        *(
            NOTHING if share is None else f"{share:.0%}"
            for share in (kernel.memory_share, kernel.compute_share, kernel.occupancy)
        ),
    ]


def short(name: str) -> str:
    """A kernel's name without what every such name has, cut to `LONGEST` characters."""
    plain = re.sub(r"^void |\(anonymous namespace\)::|<unnamed>::", "", one_line(name))
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 3]}..."


def plain(found: Profile) -> dict[str, Any]:
    """The profile for a program."""
    return dataclasses.asdict(found)
