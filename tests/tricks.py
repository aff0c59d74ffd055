"""The files of tests/mutants/ and tests/honest/: one trick each, and what it must get.

A file lies in a folder named after its problem (tests/mutants/problems/). Its docstring says
`expect: STATUS`, and may say `says: part of the message`, `flags: some that the row has` and
`dtypes: those to judge it in` (float32). Files whose name begins with `gpu_` need a device.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import judges

from harness import catalog
from harness.records import Row

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

    @property
    def name(self) -> str:
        name = f"{self.path.parent.name}/{self.path.stem}"
        return name if self.dtype == "float32" else f"{name} {self.dtype}"

    @property
    def gpu(self) -> bool:
        return self.path.stem.startswith("gpu_")


Rows = Callable[[Trick], Row]


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
        )
        for dtype in facts.get("dtypes", "float32").split()
    ]


def parameters(folder: str) -> list[object]:
    """The tricks of a folder as test parameters; those for a GPU are marked."""
    return [
        pytest.param(trick, id=trick.name, marks=[pytest.mark.gpu] if trick.gpu else [])
        for trick in find(folder)
    ]


@contextlib.contextmanager
def rows(request: pytest.FixtureRequest, folder: Path) -> Iterator[Rows]:
    """The rows of the tricks that a module's tests were selected for, judged side by side.

    They are checked and nothing is timed. On a GPU one after the other: each fills all of its
    free memory before a call.
    """
    items = [i for i in request.session.items if i.path == request.path]
    specs = [item.callspec for item in items if hasattr(item, "callspec")]
    tricks = [spec.params["trick"] for spec in specs]
    with judges(folder, 1 if any(trick.gpu for trick in tricks) else 2) as judge:
        futures = {
            trick: judge(
                trick.path,
                catalog.load_problem(trick.path.parent.name, PROBLEMS),
                device="cuda" if trick.gpu else "cpu",
                dtype=trick.dtype,
                modes=(),
                threads=1,
            )
            for trick in tricks
        }
        yield lambda trick: futures[trick].result()
