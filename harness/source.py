"""Reads problems and solutions as text.

Covers: decoding, what a problem must define, the block of a model's answer that is the solution.
Nothing here imports, compiles or runs what it reads. What only running can tell (a failing
`get_inputs`, a ModelNew that exec makes) is found later.
"""

from __future__ import annotations

import ast
import codecs
import hashlib
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import syntax
from harness.errors import ProblemError
from harness.records import Problem, Solution
from harness.syntax import BadSource
from harness.wording import counted

MAX_BYTES = 1 << 20  # a larger file is not read: 4 MiB can take the parser 8 s and 2 GB
#: First words after a fence that make its block Python; models also leave it out.
PYTHON_INFO = ("", "py", "python", "python3")
NOTHING = ("", "None", "null")  # what programs write where a model gave no code
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*\{?\.?([^\s`{},:]*)([^`]*)")
#: A block as programs cut it out: fences anywhere in a line, whatever follows the last of them.
_LOOSE = re.compile(r"`{3}(?:py|python3?)\b[^\n`]*\n(.*?)(?:`{3}|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r".*</think(?:ing)?>", re.DOTALL)  # chat templates open it in the prompt
_CLASS = re.compile(r"^[ \t]*class[ \t]+ModelNew\b", re.MULTILINE)


def read_problem(name: str, path: Path) -> Problem:
    """`path` as the problem `name`. Raises `ProblemError` for a file that cannot serve."""
    try:
        source = _read(path, "utf-8")
        tree = syntax.parse(source)
    except BadSource as error:
        raise ProblemError(error.reason, path=str(path), line=error.line) from None
    names = syntax.bound_names(tree)
    for wanted, kind in (("Model", ast.ClassDef), ("get_inputs", ast.FunctionDef)):
        if wanted not in names and "*" not in names:
            found = [node for node in syntax.top_level(tree) if isinstance(node, kind)]
            listed = f": it has {', '.join(node.name for node in found)}" if found else ""
            line = found[0].lineno if found else 1
            reason = f"the problem file defines no {wanted}{listed}"
            raise ProblemError(reason, path=str(path), line=line)
    return Problem(name=name, path=str(path), source=source, digest=_digest(source))


def read_solution(name: str, path: Path, problem: Problem) -> Solution:
    """`path` as a solution of `problem`. Whatever is wrong with it becomes its `fault`."""
    text, note, first = "", "", 1
    fault, devices = None, syntax.DEVICE_TYPES
    packages: tuple[str, ...] = ()
    try:
        # A stray byte in a comment is no fault: latin-1 takes any.
        text = _read(path, "utf-8", "latin-1")
        if path.suffix.lower() != ".py":
            text, first, note = _from_answer(text)
        tree = _solution_tree(text)
        devices, packages = syntax.devices(tree), syntax.packages(tree)
    except BadSource as error:
        line = f":{error.line + first - 1}:" if error.line else ""
        fault = f"{path.name}{line} {error.reason}"
        if path.suffix.lower() == ".py" and text.lstrip().startswith("```"):
            fault += "; a model's raw answer goes into a .md file"
    return Solution(
        name=name,
        problem=problem.name,
        path=str(path),
        source=text,
        digest=_digest(text),
        devices=devices,
        packages=packages,
        note=note,
        fault=fault,
    )


def _solution_tree(source: str) -> ast.Module:
    """The tree of a text that defines ModelNew. Raises `BadSource`."""
    if source.strip() in NOTHING:
        raise BadSource(f"holds no code ({source.strip() or 'it is empty'})")
    tree = syntax.parse(source)
    if not syntax.bound_names(tree) & {"ModelNew", "*"}:
        classes = [node.name for node in syntax.top_level(tree) if isinstance(node, ast.ClassDef)]
        raise BadSource(
            f"defines no ModelNew; its classes are {', '.join(classes)}"
            if classes
            else "defines no ModelNew, nor any other class"
        )
    return tree


def _read(path: Path, *encodings: str) -> str:
    """The text in the first of `encodings` that fits, lines ended by `\\n`. `BadSource`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadSource(f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise BadSource(f"is larger than {MAX_BYTES >> 20} MiB, the most that is read")
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16", *encodings) if marked else encodings:
        try:
            text = data.decode(encoding)
        except UnicodeError as error:
            line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
            continue
        return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    raise BadSource(f"not {encodings[0]} text: save it as such", line)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


# --- a model's answer ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Block:
    """A fenced block; `first` is the 1-based line of its first line of content."""

    info: str
    source: str
    first: int
    closed: bool

    @property
    def lines(self) -> str:
        return f"lines {self.first}-{self.first + self.source.count(chr(10)) - 1}"

    def defines_model(self, *, broken: bool) -> bool:
        """Whether it is Python that makes ModelNew; with `broken`, also with a syntax error.

        An import does not: that is how an example uses it.
        """
        if self.info.lower() not in PYTHON_INFO or "ModelNew" not in self.source:
            return False
        try:
            return "ModelNew" in syntax.bound_names(syntax.parse(self.source), imports=False)
        except BadSource:
            return broken and bool(_CLASS.search(self.source))


def _from_answer(text: str) -> tuple[str, int, str]:
    """Source, the line that it starts on, and a note on which block of `text` it is.

    The last fenced Python block that defines ModelNew; where there is none, the text itself if
    it is Python. What was thought before `</think>` is no answer. Raises `BadSource`.
    """
    text = _THOUGHT.sub(lambda thought: "\n" * thought[0].count("\n"), text, count=1)
    blocks = list(_blocks(text.split("\n")))
    block = _last(blocks, broken=True)
    if block is None or not block.defines_model(broken=False):
        loose = _last(list(_loose_blocks(text)), broken=True)
        if loose is not None and loose.defines_model(broken=False):
            return loose.source, loose.first, f"{loose.lines}, between fences that share lines"
    if block is not None:
        note = f"block {blocks.index(block) + 1} of {len(blocks)}, {block.lines}"
        return block.source, block.first, note + ("" if block.closed else " (never closed)")
    whole = _Block(info="", source=text, first=1, closed=True)
    if text.strip() in NOTHING or whole.defines_model(broken=not blocks):
        return text, 1, ""
    if not blocks:
        raise BadSource("has no fenced Python block")
    raise BadSource(f"has no ModelNew in its {counted(len(blocks), 'fenced block')}")


def _last(blocks: list[_Block], *, broken: bool) -> _Block | None:
    return next((block for block in reversed(blocks) if block.defines_model(broken=broken)), None)


def _loose_blocks(text: str) -> Iterator[_Block]:
    for found in _LOOSE.finditer(text):
        first = text.count("\n", 0, found.start(1)) + 1
        source = textwrap.dedent(found[1]).rstrip("\n") + "\n"
        yield _Block(info="", source=source, first=first, closed=True)


def _blocks(lines: list[str]) -> Iterator[_Block]:
    """The fenced blocks of a Markdown text.

    As CommonMark has it, but that a fence which says Python also ends an open Python block: a
    model that was cut off and began again leaves such.
    """
    start = 0
    while start < len(lines):
        fence = _FENCE.fullmatch(lines[start])
        start += 1
        if fence is None:
            continue
        mark, info = fence[1], fence[2]
        end, closed = start, False
        while end < len(lines):
            inner = _FENCE.fullmatch(lines[end])
            if inner and inner[1].startswith(mark):
                closed = not (inner[2] or inner[3].strip())
                if closed or {info.lower(), inner[2].lower()} <= set(PYTHON_INFO[1:]):
                    break
            end += 1
        content = textwrap.dedent("".join(f"{line}\n" for line in lines[start:end]))
        yield _Block(info=info, source=content, first=start + 1, closed=closed)
        start = end + closed
