"""The files of tests/mutants/, tests/cheats/ and tests/honest/: one trick each, what it must get.

A file lies in a folder named after its problem (tests/mutants/problems/). Its docstring says
`expect: STATUS`, and may say `says: part of the message`, `flags: some that the row has` and
`dtypes: those to judge it in` (float32). A cheat's says `defence: what stops it` too, and may say
`modes: those to time`, `memory: measured` and `needs: strict` (isolation); its `expect` and `says`
are regular expressions. One that only hides memory passes: its `flags`, and `peak: MiB, at least`,
say how that shows. Files whose name begins with `gpu_` need a device.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import judges

from harness import catalog
from harness.judge.process import isolation
from harness.records import Row, Status

HERE = Path(__file__).resolve().parent
PROBLEMS = HERE / "mutants" / "problems"


@dataclass(frozen=True, kw_only=True)
class Trick:
    """One file in one dtype, and what its docstring says of it."""

    path: Path
    dtype: str
    expect: str
    says: str
    flags: tuple[str, ...]
    summary: str = ""
    defence: str = ""
    modes: tuple[str, ...] = ("forward",)
    strict: bool = False
    memory: bool = False
    peak_mib: float | None = None

    @property
    def name(self) -> str:
        name = f"{self.path.parent.name}/{self.path.stem}"
        return name if self.dtype == "float32" else f"{name} {self.dtype}"

    @property
    def gpu(self) -> bool:
        return self.path.stem.startswith("gpu_")

    @property
    def honest(self) -> bool:
        return self.path.parent.parent.name == "honest"

    def agrees(self, row: Row) -> bool:
        """Whether a row is what the file says. What is no honest control gets no speedup at all,
        not even one below 1: it would be honest code under another name, and show nothing. One
        that hides memory has that in its peak."""
        if not re.fullmatch(self.expect, row.verdict.status.value):
            return False
        if not re.search(self.says, row.verdict.message) or not set(self.flags) <= set(row.flags):
            return False
        if self.honest:
            return "memory_outside" not in set(row.flags) - set(self.flags)
        if self.peak_mib is not None:
            peak = row.memory and row.memory.inference_peak_mib
            return (peak or 0.0) >= self.peak_mib
        return not [n for n, value in row.flat().items() if n.endswith("_speedup") and value]

    def unsettled(self, row: Row) -> bool:
        """Whether a cheat passed where others kept the machine busy: in each mode no faster than
        the reference, or with samples that do not settle. One that only hides memory, whose times
        are as honest as others', may have been refused for those there."""
        if self.peak_mib is not None:
            return row.verdict.status is Status.REJECTED
        if self.honest or row.verdict.status is not Status.PASS:
            return False
        found = {name: m.speedup for name, m in row.modes.items() if m.speedup is not None}
        return bool(found) and all(
            speedup <= 1 or f"{name}:unstable" in row.flags for name, speedup in found.items()
        )


Rows = Callable[[Trick], Row]
TRIES = 3


def insist(trick: Trick, judge: Callable[[], Row]) -> Row:
    """The row of a trick. One that lives on a core of its own may gain nothing where others keep
    that busy, and there is nothing to reject then: it is judged again, `TRIES` times in all."""
    row = judge()
    for _ in range(TRIES - 1):
        if not trick.unsettled(row):
            break
        row = judge()
    return row


def find(folder: str) -> list[Trick]:
    """The tricks of a folder of tests/, by name."""
    files = sorted((HERE / folder).glob("*/*.py"))
    return [trick for path in files if path.parent != PROBLEMS for trick in _read(path)]


def _read(path: Path) -> list[Trick]:
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    facts = dict(line.split(": ", 1) for line in doc.splitlines() if ": " in line)
    return [
        Trick(
            path=path,
            dtype=dtype,
            expect=facts["expect"],
            says=facts.get("says", ""),
            flags=tuple(facts.get("flags", "").split()),
            summary=doc.partition("\n\n")[0].replace("\n", " "),
            defence=facts.get("defence", ""),
            modes=tuple(facts.get("modes", "forward").split()),
            strict=facts.get("needs") == "strict",
            memory=facts.get("memory") == "measured",
            peak_mib=float(facts["peak"]) if "peak" in facts else None,
        )
        for dtype in facts.get("dtypes", "float32").split()
    ]


def parameters(folder: str) -> list[Any]:
    """The tricks of a folder as test parameters; those for a GPU are marked."""
    return [pytest.param(trick, id=trick.name, marks=_marks(trick)) for trick in find(folder)]


def _marks(trick: Trick) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.gpu] if trick.gpu else []
    if trick.strict and (problem := isolation.unusable()):
        marks.append(pytest.mark.skip(reason=problem))
    return marks


#: As cheats are judged: timed beside a real baseline, audited, profiled.
IN_FULL: dict[str, Any] = {"real_baseline": True, "profile": True}


def options(trick: Trick) -> dict[str, Any]:
    """How a trick is judged where nothing is timed."""
    return {
        "sandbox": "strict" if trick.strict else "default",
        "device": "cuda" if trick.gpu else "cpu",
        "dtype": trick.dtype,
        "modes": (),
        "threads": 1,
        "measure_memory": trick.memory,
    }


def judged_in_full(trick: Trick) -> dict[str, Any]:
    """How a trick is judged where it could earn something."""
    return options(trick) | {"modes": trick.modes} | IN_FULL


@contextlib.contextmanager
def rows(request: pytest.FixtureRequest, folder: Path, *, in_full: bool = False) -> Iterator[Rows]:
    """The rows of the tricks that a module's tests were selected for, judged side by side.

    They are checked and, unless `in_full`, nothing is timed. What is timed is judged one after the
    other: beside another, a trick that lives on a second core was once not told from a fast kernel.
    """
    items = [i for i in request.session.items if i.path == request.path]
    specs = [item.callspec for item in items if hasattr(item, "callspec")]
    tricks = [spec.params["trick"] for spec in specs]
    tricks = [t for t in tricks if not (t.strict and isolation.unusable())]
    with judges(folder, 1 if in_full or any(trick.gpu for trick in tricks) else 2) as judge:

        def submit(trick: Trick) -> Future[Row]:
            problem = catalog.load_problem(trick.path.parent.name, PROBLEMS)
            how = judged_in_full(trick) if in_full else options(trick)
            return judge(trick.path, problem, **how)

        ahead = {trick: submit(trick) for trick in tricks}

        def judged(trick: Trick) -> Row:
            return (ahead.pop(trick, None) or submit(trick)).result()

        yield functools.cache(lambda trick: insist(trick, lambda: judged(trick)))


def table() -> str:
    """The cheats as docs/integrity.md lists them: trick, defence, verdict."""
    lines = ["| trick | what it does | defence | verdict |", "|---|---|---|---|"]
    for trick in find("cheats"):
        verdict = trick.expect.replace("|", " or ") + (" (strict)" if trick.strict else "")
        verdict = ", ".join([verdict, *(f"`{flag}`" for flag in trick.flags)])
        cells = (f"`{trick.path.stem}`", trick.summary, trick.defence, verdict)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
