"""Finds problems and solutions: names -> files. What a file holds: source.py."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.errors import RequestError, hint
from harness.records import Problem, Solution
from harness.source import read_problem, read_solution

_LEVEL = re.compile(r"level_?(\d+)")  # the folder of a suite's level, as KernelBench has them
_NUMBER = re.compile(r"(\d+)(?![^\W_])")  # that a problem's stem begins with, no `3D`
#: A sample in a folder of generations: level, problem, sample.
_SAMPLE = re.compile(r"level_\d+_problem_\d+_sample_(\d+)(_kernel)?")
SUFFIXES = (".py", ".txt", ".md")  # of solutions; `.py` is taken whole, the others are answers


def find_problems(folder: Path) -> dict[str, Path]:
    """Name -> file of every `*.py` under `folder`, sorted by name.

    The name is the stem; where stems collide, the path under `folder` without its suffix. In a
    folder `level1`, `level2`, ... the name is `level1/94_MSELoss`, whatever lies above.
    What starts with `_` or `.`, file or folder, is left out. Raises `RequestError`.
    """
    if not folder.is_dir():
        raise RequestError(f"no problem folder {folder}: name another with --problem-dir")
    files = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "_."]
        files += [Path(parent, n) for n in names if n.endswith(".py") and n[0] not in "_."]
    stems = Counter(short_name(file) for file in files)
    return dict(
        sorted(
            (
                short_name(f)
                if stems[short_name(f)] == 1
                else f.relative_to(folder).with_suffix("").as_posix(),
                f,
            )
            for f in files
        )
    )


def short_name(file: Path) -> str:
    """What a problem in that file is called, wherever its folder lies."""
    level = _LEVEL.fullmatch(file.absolute().parent.name)
    return f"level{level[1]}/{file.stem}" if level else file.stem


def level_of(problem: str) -> int | None:
    """The level in a problem's name: 1 of `level1/94_MSELoss`."""
    level = _LEVEL.fullmatch(problem.rpartition("/")[0].rpartition("/")[2])
    return int(level[1]) if level else None


def number_of(problem: str) -> int | None:
    """The number in a problem's name: 94 of `level1/94_MSELoss`."""
    number = _NUMBER.match(problem.rpartition("/")[2])
    return int(number[1]) if number else None


def sample_of(solution: str) -> int | None:
    """The number of a sample in a solution's name: 0 of `sample_0`, or of a generation's stem."""
    number = _SAMPLE.fullmatch(solution) or re.fullmatch(r"sample_(\d+)", solution)
    return int(number[1]) if number else None


def find_problem(name_or_path: str | Path, folder: Path) -> tuple[str, Path]:
    """Name and file of the problem of that name under `folder`, or in that file anywhere.

    A file needs no `folder`. Raises `RequestError` for an unknown name.
    """
    is_file = os.path.isfile(name_or_path)
    known = {} if is_file and not folder.is_dir() else find_problems(folder)
    name, path = _choose(str(name_or_path), known, folder, "problem")
    return (name if name in known else short_name(path)), path


def load_problem(name_or_path: str | Path, folder: Path) -> Problem:
    """What `find_problem` finds, read and checked.

    Raises `RequestError` for an unknown name, `ProblemError` for a file that cannot serve.
    """
    return read_problem(*find_problem(name_or_path, folder))


def find_solutions(folder: Path, problem: Problem) -> list[Solution]:
    """The solutions in `folder`/<problem name>, read, by name; none where that is missing.

    A name is a stem; a folder of generations has them in itself:
    `level_1_problem_94_sample_0_kernel.py` is `sample_0` of `level1/94_...`. Where such names
    collide, the file's name.
    README and what starts with `_` or `.` are left out. Raises `RequestError` where `folder`
    itself is missing.
    """
    files = _solution_files(folder, problem)
    return [read_solution(name, path, problem) for name, path in files.items()]


def load_solution(name_or_path: str | Path, folder: Path, problem: Problem) -> Solution:
    """The solution of that name for `problem`, or in that file anywhere. `RequestError` if none."""
    is_file = os.path.isfile(name_or_path)
    known = {} if is_file and not folder.is_dir() else _solution_files(folder, problem)
    name, path = _choose(str(name_or_path), known, folder / problem.name, "solution")
    return read_solution(name, path, problem)


def _solution_files(folder: Path, problem: Problem) -> dict[str, Path]:
    if not folder.is_dir():
        raise RequestError(f"no solution folder {folder}: name another with --solution-dir")
    short = problem.name.rpartition("/")[2]
    place = next(
        (p for p in (folder / problem.name, folder / short) if p.is_dir()), folder / problem.name
    )
    files = [file for file in (place.iterdir() if place.is_dir() else ()) if _is_solution(file)]
    named = [*((file.stem, file) for file in files), *_samples(folder, problem.name)]
    count = Counter(name for name, _ in named)
    return dict(sorted((name if count[name] == 1 else file.name, file) for name, file in named))


def _is_solution(file: Path) -> bool:
    right = file.suffix.lower() in SUFFIXES and file.name[0] not in "_."
    return right and file.stem.lower() != "readme" and file.is_file()


def _samples(folder: Path, problem: str) -> Iterator[tuple[str, Path]]:
    """Name and file of what a folder of generations holds for a problem of a level."""
    level, number = level_of(problem), number_of(problem)
    if level is None or number is None:
        return
    for file in folder.glob(f"level_{level}_problem_{number}_sample_*"):
        match = _SAMPLE.fullmatch(file.stem)
        if match and _is_solution(file):
            yield f"sample_{int(match[1])}", file


def _choose(wanted: str, known: dict[str, Path], folder: Path, what: str) -> tuple[str, Path]:
    """Name and file of `wanted`: a name, a file anywhere, or a file's path under `folder`."""
    if wanted in known:
        return wanted, known[wanted]
    short = [name for name in known if "/" in name and name.rpartition("/")[2] == wanted]
    if len(short) == 1:
        return short[0], known[short[0]]
    for path in (Path(wanted), folder / wanted, folder / f"{wanted}.py"):
        if os.path.isfile(path):
            names = [name for name, file in known.items() if os.path.samefile(file, path)]
            return (names or [path.stem])[0], path
    if os.path.isdir(wanted):
        raise RequestError(f"{wanted} is a folder: name a {what} file in it")
    raise RequestError(f"no {what} {wanted!r} in {folder}: {hint(wanted, known, what + 's')}")
