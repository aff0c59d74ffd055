"""Finds problems and solutions, and reads both as text.

Covers: names -> files, decoding, the block of a model's answer that is the solution, what the
syntax tree says about ModelNew and about devices. Nothing here imports, compiles or runs what
it reads. What only running can tell (a failing `get_inputs`, a ModelNew that exec makes) is
found later.
"""

from __future__ import annotations

import ast
import codecs
import hashlib
import os
import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ProblemError, RequestError, hint
from harness.records import Problem, Solution

MAX_BYTES = 4 << 20  # a larger file is not read
SUFFIXES = (".py", ".txt", ".md")  # of solutions; `.py` is taken whole, the others are answers
DEVICE_TYPES: tuple[str, ...] = ("cpu", "cuda")
#: First words after a fence that make its block Python; models also leave it out.
PYTHON_INFO = ("", "py", "python", "python3")
NOTHING = ("", "None", "null")  # what programs write where a model gave no code
#: Modules whose import means that a solution needs a GPU.
GPU_MODULES = {"triton", "tilelang", "cutlass", "cupy", "pycuda", "cuda", "numba.cuda"}
_CUDA_HEADER = re.compile(r"^\s*#\s*include\s*[<\"](cu(da|blas|dnn)|\w+/cuda/|hip/)", re.MULTILINE)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*\{?\.?([^\s`{},:]*)([^`]*)")
_SOURCE_FILE = re.compile(r"\S*(\.cu|\.cpp)")
_CLASS = re.compile(r"^[ \t]*class[ \t]+ModelNew\b", re.MULTILINE)


# --- finding ------------------------------------------------------------------------------------


def find_problems(folder: Path) -> dict[str, Path]:
    """Name -> file of every `*.py` under `folder`, sorted by name.

    The name is the stem; where stems collide, the path under `folder` without its suffix.
    What starts with `_` or `.`, file or folder, is left out. Raises `RequestError`.
    """
    if not folder.is_dir():
        raise RequestError(f"no problem folder {folder}: name another with --problem-dir")
    files = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "_."]
        files += [Path(parent, n) for n in names if n.endswith(".py") and n[0] not in "_."]
    stems = Counter(file.stem for file in files)
    return dict(
        sorted(
            (f.stem if stems[f.stem] == 1 else f.relative_to(folder).with_suffix("").as_posix(), f)
            for f in files
        )
    )


def load_problem(name_or_path: str | Path, folder: Path) -> Problem:
    """The problem of that name under `folder`, or in that file anywhere, read and checked.

    Raises `RequestError` for an unknown name, `ProblemError` for a file that cannot serve.
    """
    is_file = os.path.isfile(name_or_path)
    known = {} if is_file and not folder.is_dir() else find_problems(folder)
    name, path = _choose(str(name_or_path), known, folder, "problem")
    try:
        source = _read(path, "utf-8")
        tree = _parse(source)
    except _BadSource as error:
        raise ProblemError(error.reason, path=str(path), line=error.line) from None
    names = _bound_names(tree)
    for wanted, kind in (("Model", ast.ClassDef), ("get_inputs", ast.FunctionDef)):
        if wanted not in names and "*" not in names:
            found = [node for node in _top_level(tree) if isinstance(node, kind)]
            listed = f": it has {', '.join(node.name for node in found)}" if found else ""
            line = found[0].lineno if found else 1
            reason = f"the problem file defines no {wanted}{listed}"
            raise ProblemError(reason, path=str(path), line=line)
    return Problem(name=name, path=str(path), source=source, digest=_digest(source))


def find_solutions(folder: Path, problem: Problem) -> list[Solution]:
    """The solutions in `folder`/<problem name>, read, by name; none where that is missing.

    A name is a stem; where stems collide, the file's name. README and what starts with `_` or
    `.` are left out. Raises `RequestError` where `folder` itself is missing.
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
    place = folder / problem.name
    files = [
        file
        for file in (place.iterdir() if place.is_dir() else ())
        if file.suffix.lower() in SUFFIXES and file.name[0] not in "_." and file.is_file()
    ]
    files = [file for file in files if file.stem.lower() != "readme"]
    stems = Counter(file.stem for file in files)
    return dict(sorted((f.stem if stems[f.stem] == 1 else f.name, f) for f in files))


def _choose(wanted: str, known: dict[str, Path], folder: Path, what: str) -> tuple[str, Path]:
    """Name and file of `wanted`: a name, a file anywhere, or a file's path under `folder`."""
    if wanted in known:
        return wanted, known[wanted]
    for path in (Path(wanted), folder / wanted, folder / f"{wanted}.py"):
        if os.path.isfile(path):
            names = [name for name, file in known.items() if os.path.samefile(file, path)]
            return (names or [path.stem])[0], path
    if os.path.isdir(wanted):
        raise RequestError(f"{wanted} is a folder: name a {what} file in it")
    raise RequestError(f"no {what} {wanted!r} in {folder}: {hint(wanted, known, what + 's')}")


# --- reading ------------------------------------------------------------------------------------


class _BadSource(Exception):
    """Text that cannot serve; `line` is 1-based, None for the file as a whole."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def _read(path: Path, *encodings: str) -> str:
    """The text in the first of `encodings` that fits, lines ended by `\\n`. `_BadSource`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _BadSource(f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise _BadSource(f"is larger than {MAX_BYTES >> 20} MiB, the most that is read")
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16", *encodings) if marked else encodings:
        try:
            text = data.decode(encoding)
        except UnicodeError as error:
            line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
            continue
        return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    raise _BadSource(f"not {encodings[0]} text: save it as such", line)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _parse(source: str) -> ast.Module:
    """The syntax tree. Raises `_BadSource`, also for what breaks Python's own parser."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes and the like concern its author
            return ast.parse(source)
    except SyntaxError as error:
        raise _BadSource(error.msg, error.lineno or None) from None
    except (ValueError, RecursionError, MemoryError) as error:
        # NUL characters (ValueError before Python 3.12), and absurdly deep nesting.
        raise _BadSource(str(error) or "nested too deeply for Python's parser") from None


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module in order, with those under `if`, `try`, `with` and loops."""
    # A stack: a chain of a thousand elifs is as many levels deep.
    stack: list[ast.AST] = list(reversed(tree.body))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            stack += reversed(list(ast.iter_child_nodes(node)))


def _bound_names(tree: ast.Module, *, imports: bool = True) -> set[str]:
    """What a module defines by class, def, assignment or import; `*` for a star import."""
    names: set[str] = set()
    for node in _top_level(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom) and imports:
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return names


def read_solution(name: str, path: Path, problem: Problem) -> Solution:
    """`path` as a solution of `problem`. Whatever is wrong with it becomes its `fault`."""
    text, note, first = "", "", 1
    fault, devices = None, DEVICE_TYPES
    try:
        # A stray byte in a comment is no fault: latin-1 takes any.
        text = _read(path, "utf-8", "latin-1")
        if path.suffix.lower() != ".py":
            text, first, note = _from_answer(text)
        devices = _devices(_solution_tree(text))
    except _BadSource as error:
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
        note=note,
        fault=fault,
    )


def _solution_tree(source: str) -> ast.Module:
    """The tree of a text that defines ModelNew. Raises `_BadSource`."""
    if source.strip() in NOTHING:
        raise _BadSource(f"holds no code ({source.strip() or 'it is empty'})")
    tree = _parse(source)
    if not _bound_names(tree) & {"ModelNew", "*"}:
        classes = [node.name for node in _top_level(tree) if isinstance(node, ast.ClassDef)]
        raise _BadSource(
            f"defines no ModelNew; its classes are {', '.join(classes)}"
            if classes
            else "defines no ModelNew, nor any other class"
        )
    return tree


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
            return "ModelNew" in _bound_names(_parse(self.source), imports=False)
        except _BadSource:
            return broken and bool(_CLASS.search(self.source))


def _from_answer(text: str) -> tuple[str, int, str]:
    """Source, the line that it starts on, and a note on which block of `text` it is.

    The last fenced Python block that defines ModelNew; where there is none, the text itself if
    it is Python. Raises `_BadSource`.
    """
    blocks = list(_blocks(text.split("\n")))
    for number in range(len(blocks), 0, -1):
        block = blocks[number - 1]
        if block.defines_model(broken=True):
            note = f"block {number} of {len(blocks)}, {block.lines}"
            return block.source, block.first, note + ("" if block.closed else " (never closed)")
    whole = _Block(info="", source=text, first=1, closed=True)
    if text.strip() in NOTHING or whole.defines_model(broken=not blocks):
        return text, 1, ""
    count = f"any of its {len(blocks)} fenced blocks" if len(blocks) != 1 else "its fenced block"
    raise _BadSource(f"has no ModelNew in {count}" if blocks else "has no fenced Python block")


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


# --- devices ------------------------------------------------------------------------------------


def _devices(tree: ast.Module) -> tuple[str, ...]:
    """The device types that a solution can run on. Raises `_BadSource` for a bad DEVICES.

    As its `DEVICES` says. Else GPU only if it imports a GPU language or hands CUDA to the
    compiler; CPU only if it hands it C++ alone; plain PyTorch runs on both.
    """
    declared = None
    for node in _top_level(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == "DEVICES" for t in targets):
                declared = node.value
    if declared is not None:
        return _declared(declared)
    words = set(_evidence(tree))
    if words & {"cuda_sources", "with_cuda", ".cu", *GPU_MODULES}:
        return ("cuda",)
    return ("cpu",) if words & {"cpp_sources", ".cpp"} else DEVICE_TYPES


def _declared(node: ast.expr) -> tuple[str, ...]:
    try:
        value = ast.literal_eval(node)
        named = (value,) if isinstance(value, str) else tuple(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        named = ()
    if not named or not all(device in DEVICE_TYPES for device in named):
        wanted = " or ".join(map(repr, DEVICE_TYPES))
        raise _BadSource(f"DEVICES must be a literal tuple of {wanted}", node.lineno)
    return tuple(device for device in DEVICE_TYPES if device in named)


def _evidence(tree: ast.Module) -> Iterator[str]:
    """Words for what a tree shows of devices: modules imported, arguments given, files named."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = isinstance(node, ast.ImportFrom) and "." * node.level + f"{node.module}."
            for alias in node.names:
                parts = f"{module or ''}{alias.name}".split(".")
                yield from (parts[0], ".".join(parts[:2]))
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called == "load_inline":
                order = zip(("name", "cpp_sources", "cuda_sources"), node.args, strict=False)
                yield from (word for word, value in order if _given(value))
            yield from (k.arg for k in node.keywords if k.arg and _given(k.value))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and _given(value):
                    yield key.value
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if match := _SOURCE_FILE.fullmatch(node.value):
                yield match[1]
            elif _CUDA_HEADER.search(node.value):
                yield ".cu"


def _given(value: ast.expr) -> bool:
    """False for an argument that is literally nothing: None, False, "", [] or ()."""
    empty = isinstance(value, ast.Constant) and not value.value
    return not empty and not (isinstance(value, ast.List | ast.Tuple) and not value.elts)
