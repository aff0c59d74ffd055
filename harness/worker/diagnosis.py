"""What the log of a failed build says, in one line: the first diagnostic, where, and a hint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\s:(][^:(]*)[:(](?P<line>\d+)\)?(?::\d+)?\s*:\s*"
    r"(?:fatal )?error\s*:?\s*(?P<text>.*)$"
)
_LINK_ERROR = re.compile(
    r"undefined reference to|cannot find -l|ld returned \d|No such file or dir"
)
_UNDECLARED = re.compile(r"main\.cpp:.* error: \W(\w+)\W+was not declared in this scope")
_UNDEFINED = re.compile(r"undefined symbol: (\S+)")  # found when the library is opened
MOST_LINES = 50  # that tell a line from others like it
_KILLED = re.compile(r"Killed signal terminated program|: Killed$|signal 9")


@dataclass(frozen=True, kw_only=True)
class Author:
    """The solution's file: diagnostics are told at its lines, where these can be told apart."""

    source: str
    name: str


def is_compilers(log: str) -> bool:
    """Whether a build failed by what was to be compiled or linked."""
    return log.startswith("Error building extension") or bool(_UNDEFINED.search(log))


def killed(log: str) -> bool:
    """Whether the compiler was: with more memory, the same build may succeed."""
    return any(_KILLED.search(line) for line in log.splitlines())


def diagnose(log: str, folder: Path, call: Mapping[str, Any], author: Author) -> str:
    """One line: the first compiler diagnostic, where it is, and a hint where one is known."""
    if killed(log):
        return "the compiler was killed, most likely for want of memory; lower max_jobs"
    hint = _hint(log, call)
    for line in log.splitlines():
        match = _DIAGNOSTIC.match(line.strip())
        if match:
            place = _place(author, folder, match["file"], int(match["line"]))
            return f"{place}: error: {match['text'].strip()}{hint}"
    if undefined := _UNDEFINED.search(log):
        return f"the link failed: {undefined[0]}{hint}"
    for line in log.splitlines():
        if _LINK_ERROR.search(line):
            return f"the link failed: {line.strip()}{hint}"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return f"{lines[-1] if lines else 'the build failed without a word'}{hint}"


def _place(author: Author, folder: Path, file: str, line: int) -> str:
    """`answer.py:27 (cuda.cu:14: the line)`: the author's line, and the generated file's."""
    path = Path(file) if Path(file).is_absolute() else folder / file
    name = path.name
    try:
        lines = [text.strip() for text in path.read_text(errors="replace").splitlines()[:line]]
        text = lines[line - 1]
    except (OSError, IndexError):
        return f"{name}:{line}"
    if path.parent != folder or not text:
        return f"{name}:{line}"
    if own := _own_line(author, lines):
        return f"{author.name}:{own} ({name}:{line}: `{text}`)"
    return f"{name}:{line}: `{text}`"


def _own_line(author: Author, lines: list[str]) -> int | None:
    """The author's line (1-based) that is the last of `lines`, told from equal ones by those
    before it. None where it is not there, or cannot be told."""
    source = [text.strip() for text in author.source.splitlines()]
    own = [end for end, text in enumerate(source, 1) if text == lines[-1]]
    for back in range(2, min(len(lines), MOST_LINES) + 1):
        if len(own) > 1:
            own = [end for end in own if end >= back and source[end - back] == lines[-back]]
    return own[0] if len(own) == 1 else None


def _hint(log: str, call: Mapping[str, Any]) -> str:
    """What commonly lies behind a failed build, or nothing."""
    sources = " ".join(str(call.get(k) or "") for k in ("cpp_sources", "cuda_sources"))
    if call.get("functions") and "PYBIND11_MODULE" in sources:
        return " [hint: the source has its own PYBIND11_MODULE and functions=[...] adds a second]"
    functions = call.get("functions") or []
    symbol, undeclared = _UNDEFINED.search(log), _UNDECLARED.search(log)
    for name in [functions] if isinstance(functions, str) else functions:
        if undeclared and undeclared[1] == name:
            return f" [hint: {_unbound(name, call)}]"
        if symbol and f"{len(name)}{name}" in symbol[1]:  # as C++ names are mangled
            return f" [hint: no source defines {name} as its prototype declares it]"
    given = (call.get(key) or [] for key in ("extra_cflags", "extra_cuda_cflags"))
    flags = " ".join(str(flag) for group in given for flag in group)
    pinned = re.search(r"-std=\S+", flags)
    if pinned and re.search(r"C\+\+(17|20)", log):
        return f" [hint: {pinned[0]} is pinned; this torch ({torch.__version__}) needs a newer one]"
    return ""


def _unbound(name: str, call: Mapping[str, Any]) -> str:
    """Why `name`, of functions=[...], is not declared where it is bound, and what to do."""
    cuda = call.get("cuda_sources") or ""
    text = cuda if isinstance(cuda, str) else "\n".join(map(str, cuda))
    if re.search(rf"__global__[^;{{}}]*\b{name}\s*\(", text):
        return (
            f"{name} is a kernel; functions=[...] names the C++ functions that launch kernels, "
            "and cpp_sources holds their prototypes"
        )
    if defined := re.search(
        rf"^[ \t]*(\w[\w:<>,&* \t]*[\s&*]{name}\s*\([^{{}};]*\))\s*{{", text, re.M
    ):
        return f"cpp_sources must hold the prototype of {name}: {' '.join(defined[1].split())};"
    return f"functions=[...] names {name}, which neither source defines"
