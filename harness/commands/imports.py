"""Published result sets -> a folder of problems and one of solutions.

Each row of a set (`result_sets`) has a candidate's source, or a list of several, and mostly the
reference's. A row without code is written as it is, so that evaluating it gives its
`contract_error`; nothing is run here.

Not covered: Parquet (`pandas.DataFrame.to_json(..., orient="records", lines=True)` makes lines
of it), and verdicts or times that a set claims: they are not taken over.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import syntax
from harness.commands import result_sets
from harness.commands.result_sets import Row
from harness.errors import MachineError, RequestError

#: A candidate that is CUDA alone takes the place of the function in the functional reference.
_WRAPPED = """{functional}

from torch.utils.cpp_extension import load_inline

_EXTENSION = load_inline(name="imported_{digest}", cpp_sources="", cuda_sources={cuda!r})


class ModelNew(Model):
    def forward(self, *inputs):
        return super().forward(*inputs, fn=_EXTENSION.forward)
"""


@dataclass(kw_only=True)
class Imported:
    """What was written, and which rows (1-based) could not be. `problems`: name -> source."""

    folder: Path
    problems: dict[str, str] = field(default_factory=dict)
    solutions: int = 0
    without_code: int = 0
    notes: list[str] = field(default_factory=list)
    _taken: set[Path] = field(default_factory=set)

    @property
    def problem_dir(self) -> Path:
        return self.folder / "problems"

    @property
    def solution_dir(self) -> Path:
        return self.folder / "solutions"


def load(path: Path, folder: Path, columns: Mapping[str, str | None] | None = None) -> Imported:
    """Write `folder`/problems and `folder`/solutions from `path`.

    `columns`: a key of `result_sets.COLUMNS` -> the column's name, where it is none of those known.
    Raises `RequestError` where nothing can be read or is meant to be there already, and
    `MachineError` where not all can be written: then nothing is left there.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise RequestError(f"{folder} is no empty folder: name a new one with --to")
    chosen = {key: name for key, name in (columns or {}).items() if name}
    found = Imported(folder=folder)
    try:
        _take_all(found, path, chosen)
    except BaseException as error:  # half a set would pass for a whole one
        for place in (found.problem_dir, found.solution_dir):
            shutil.rmtree(place, ignore_errors=True)
        if isinstance(error, OSError):
            raise MachineError(f"cannot write {folder}: {error.strerror}") from None
        raise
    return found


def _take_all(found: Imported, path: Path, chosen: Mapping[str, str]) -> None:
    """Write every row. Raises `RequestError` where none can be used."""
    for number, row in result_sets.read(path, chosen):
        if isinstance(row, Row):
            _take(found, number, row)
        else:
            found.notes.append(f"row {number} is left out: {row}")
    if not found.solutions:
        why = f": {found.notes[0]}" if found.notes else ""
        raise RequestError(f"{path} holds no row that can be used{why}")


def _take(found: Imported, number: int, row: Row) -> None:
    """Write the candidates of one row."""
    if "candidate" not in row:
        found.notes.append(f"row {number} is left out: {row.lacks}")
        return
    level, task = row.level, row.task
    problem = None
    if row.text("reference").strip():
        problem = _problem(found, row, level, task)
    elif level is None or task is None:
        text = "it has no reference, and no level and number of a problem"
        found.notes.append(f"row {number} is left out: {text}")
        return
    for source in row.texts("candidate"):
        found.without_code += not source.strip() or source.strip() in ("None", "null")
        sample = row.number("sample")
        if problem is None:
            pattern = f"level_{level}_problem_{task}_sample_{{}}_kernel"
            _write(found, found.solution_dir, pattern, sample, source)
            continue
        name = _clean(row.text("sample"))
        pattern = "sample_{}" if sample is not None or not name else name + "_{}"
        wrapped = _with_wrapper(source, row.text("functional"))
        _write(found, found.solution_dir / problem, pattern, sample, wrapped)


def _problem(found: Imported, row: Row, level: int | None, task: int | None) -> str:
    """The problem's name; its file is written where it is new."""
    source = row.text("reference")
    digest = hashlib.sha256(source.encode()).hexdigest()
    stem = _clean(row.name)
    if task is not None and not re.match(rf"{task}(_|$)", stem):
        stem = f"{task}_{stem}" if stem else str(task)
    name = f"level{level}/{stem}" if level is not None and stem else stem
    name = name or f"problem_{digest[:8]}"
    if found.problems.get(name, source) != source:
        name = f"{name}_{digest[:6]}"
    if name not in found.problems:
        file = found.problem_dir / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, encoding="utf-8")
        found.problems[name] = source
    return name


def _write(found: Imported, place: Path, pattern: str, sample: int | None, source: str) -> None:
    """Write a candidate under the number of its sample, or the next that is free."""
    place.mkdir(parents=True, exist_ok=True)
    names = (place / pattern.format(number) for number in itertools.count(sample or 0))
    stem = next(name for name in names if name not in found._taken)
    found._taken.add(stem)
    answer = "```" in source or "</think" in source
    suffix = ".md" if answer and not _parses(source) else ".py"
    stem.with_name(stem.name + suffix).write_text(source or "None", encoding="utf-8")
    found.solutions += 1


def _with_wrapper(cuda: str, functional: str) -> str:
    """A candidate that is CUDA alone, as a ModelNew; any other as it is."""
    if "ModelNew" in cuda or "PYBIND11_MODULE" not in cuda or not functional.strip():
        return cuda
    digest = hashlib.sha256(cuda.encode()).hexdigest()[:12]
    return _WRAPPED.format(functional=functional.rstrip(), digest=digest, cuda=cuda)


def _parses(source: str) -> bool:
    try:
        syntax.parse(source)
    except syntax.BadSource:
        return False
    return True


def _clean(name: str) -> str:
    """A name that a file can have anywhere."""
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("._-")[:100]
