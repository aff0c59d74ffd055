"""What the syntax tree of a Python text says: the names that it binds, the devices it is for.

The text is parsed and never run; a text that breaks Python's own parser is a `BadSource`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

DEVICE_TYPES: tuple[str, ...] = ("cpu", "cuda")
#: Modules whose import means that a solution needs a GPU.
GPU_MODULES = {"triton", "tilelang", "cutlass", "cupy", "pycuda", "cuda", "numba.cuda"}
#: Kernel languages that a torch installation need not have: module -> what to install.
PACKAGES = {
    "triton": "triton",
    "tilelang": "tilelang",
    "cutlass": "nvidia-cutlass-dsl",  # CuTe DSL is its module cutlass.cute
    "cupy": "cupy-cuda12x",
    "numba": "numba",
    "pycuda": "pycuda",
    "cuda": "cuda-python",
}
_CUDA_HEADER = re.compile(r"^\s*#\s*include\s*[<\"](cu(da|blas|dnn)|\w+/cuda/|hip/)", re.MULTILINE)
_SOURCE_FILE = re.compile(r"\S*(\.cu|\.cpp)")


class BadSource(Exception):
    """Text that cannot serve; `line` is 1-based, None for the file as a whole."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse(source: str) -> ast.Module:
    """The syntax tree. Raises `BadSource`, also for what breaks Python's own parser."""
    before, nul, _ = source.partition("\0")
    if nul:
        raise BadSource("a NUL character, which Python does not read", before.count("\n") + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes and the like concern its author
            return ast.parse(source)
    except SyntaxError as error:
        raise BadSource(error.msg, error.lineno or None) from None
    except (RecursionError, MemoryError):
        raise BadSource("is nested too deeply for Python's parser") from None


def top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module in order, with those under `if`, `try`, `with` and loops."""
    # A stack: a chain of a thousand elifs is as many levels deep.
    stack: list[ast.AST] = list(reversed(tree.body))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            stack += reversed(list(ast.iter_child_nodes(node)))


def bound_names(tree: ast.Module, *, imports: bool = True) -> set[str]:
    """What a module defines by class, def, assignment or import; `*` for a star import."""
    names: set[str] = set()
    for node in top_level(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom) and imports:
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return names


def devices(tree: ast.Module) -> tuple[str, ...]:
    """The device types that a solution can run on. Raises `BadSource` for a bad DEVICES.

    As its `DEVICES` says. Else GPU only if it imports a GPU language or hands CUDA to the
    compiler; CPU only if it hands it C++ alone; plain PyTorch runs on both.
    """
    declared = None
    for node in top_level(tree):
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


def packages(tree: ast.Module) -> tuple[str, ...]:
    """The modules of `PACKAGES` that a text cannot do without: it imports them at its top, and
    not in a `try`."""
    imported: dict[str, None] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            imported |= dict.fromkeys(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported[node.module.split(".")[0]] = None
    return tuple(name for name in imported if name in PACKAGES)


def _declared(node: ast.expr) -> tuple[str, ...]:
    try:
        value = ast.literal_eval(node)
        named = (value,) if isinstance(value, str) else tuple(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        named = ()
    if not named or not all(device in DEVICE_TYPES for device in named):
        wanted = " or ".join(map(repr, DEVICE_TYPES))
        raise BadSource(f"DEVICES must be a literal tuple of {wanted}", node.lineno)
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
