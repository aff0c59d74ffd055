"""A problem file's own constants: what its sizes set, and what `fit` may shrink.

A size is `full` (as written), a key of the file's `SIZES`, or constants stated outright:
`batch_size=16,dim=1024`; of a constant that is a tuple, its first element. Assignments are
replaced before the file runs, so what is derived from them follows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from harness.errors import ProblemError, RequestError, hint

FULL = "full"  # the size of the constants as written
STATED = re.compile(r"[A-Za-z_]\w*=\d{1,18}(,[A-Za-z_]\w*=\d{1,18})*")


def sizes(source: str, path: str = "the problem file") -> tuple[str, ...]:
    """The size names that a problem file offers: `full`, and the keys of its `SIZES`.

    Raises `ProblemError` for `SIZES` that cannot be read.
    """
    return (FULL, *(name for name in _sizes(ast.parse(source), path) if name != FULL))


def stated(constants: Mapping[str, int]) -> str:
    """The size that sets `constants`; without any, `full`."""
    return ",".join(f"{name}={value}" for name, value in constants.items()) or FULL


def at_size(source: str, path: str, size: str) -> ast.Module:
    """The file's tree with the constants of `size` in place of those as written.

    Raises `ProblemError`, and `RequestError` for a size that the file does not have.
    """
    try:
        tree = ast.parse(source, filename=path)
    except SyntaxError as error:
        raise ProblemError(error.msg, path=path, line=error.lineno) from error
    overrides = _overrides(tree, source, path, size)
    replaced: set[str] = set()
    for node in _assignments(tree):
        replaced |= _replace(node, overrides)
    if missing := set(overrides) - replaced:
        if STATED.fullmatch(size):
            known = {name for node in _assignments(tree) for name in _targets(node)} - {"SIZES"}
            first = min(missing)
            raise RequestError(f"{path} has no constant {first!r}: {hint(first, known, 'names')}")
        raise ProblemError(
            f"SIZES[{size!r}] sets {sorted(missing)}, which the file never assigns", path=path
        )
    return ast.fix_missing_locations(tree)


def _overrides(tree: ast.Module, source: str, path: str, size: str) -> dict[str, Any]:
    if STATED.fullmatch(size):
        pairs = (item.split("=") for item in size.split(","))
        return {name: int(value) for name, value in pairs}
    if size == FULL:
        return {}
    known = _sizes(tree, path)
    if size not in known:
        names = ", ".join(sizes(source, path))
        raise RequestError(f"{path} has no size {size!r}; it has {names}")
    return known[size]


def _sizes(tree: ast.Module, path: str) -> dict[str, dict[str, Any]]:
    for node in _assignments(tree):
        if "SIZES" in _targets(node):
            try:
                table = ast.literal_eval(node.value)  # type: ignore[arg-type]
                return {str(name): dict(constants) for name, constants in table.items()}
            except (ValueError, TypeError, AttributeError):
                raise ProblemError(
                    'SIZES must be literal, such as {"smoke": {"ROWS": 16}}',
                    path=path,
                    line=node.lineno,
                ) from None
    return {}


def _assignments(tree: ast.Module) -> Iterator[ast.Assign | ast.AnnAssign]:
    """Those at the top of a file that give a value."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            yield node


def _targets(node: ast.Assign | ast.AnnAssign) -> dict[str, int | None]:
    """Name -> its place in the tuple that is assigned; None for the value as a whole.

    `a = 1`, `a: int = 1`, `a = b = 1` and `a, b = 1, 2`.
    """
    names: dict[str, int | None] = {}
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Name):
            names[target.id] = None
        elif isinstance(target, ast.Tuple) and _pairs_up(target, node.value):
            places = enumerate(target.elts)
            names |= {item.id: i for i, item in places if isinstance(item, ast.Name)}
    return names


def _pairs_up(target: ast.Tuple, value: ast.expr | None) -> bool:
    return isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)


def _replace(node: ast.Assign | ast.AnnAssign, overrides: Mapping[str, Any]) -> set[str]:
    """Put the values of `overrides` in; the names that were met."""
    met = set()
    for name, place in _targets(node).items():
        if name not in overrides:
            continue
        met.add(name)
        value = ast.parse(repr(overrides[name]), mode="eval").body
        if place is not None:
            assert isinstance(node.value, ast.Tuple)
            node.value.elts[place] = ast.copy_location(value, node)
        elif isinstance(overrides[name], int) and _is_shape(node.value):
            node.value.elts[0] = ast.copy_location(value, node)
        else:
            node.value = ast.copy_location(value, node)
    return met


def _is_shape(node: ast.expr | None) -> TypeGuard[ast.Tuple]:
    """Whether it is a tuple, written out, that begins with a whole number."""
    if not isinstance(node, ast.Tuple) or not node.elts:
        return False
    first = node.elts[0]
    return isinstance(first, ast.Constant) and type(first.value) is int


def leading(source: str, namespace: Mapping[str, Any]) -> dict[str, int]:
    """The whole numbers that `get_inputs` reads: first the leading dimension, then the others
    in the order of the text, those last that `get_init_inputs` reads too (channels, say).

    `namespace`: the values that the file gave its constants. A name of `a = b = 1` is met
    once: the other follows it.
    """
    tree = ast.parse(source)
    groups = [_targets(node) for node in _assignments(tree)]
    values = {n: node.value for node in _assignments(tree) for n in _targets(node)}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found: dict[str, int] = {}
    done: set[str] = set()

    def visit(node: ast.AST) -> None:
        for name in _names(node):
            if name in done:
                continue
            done.add(name)
            value = namespace.get(name)
            if name in values and isinstance(value, int) and not isinstance(value, bool):
                found[name] = value
                for group in groups:
                    if group.get(name, 0) is None:
                        done.update(group)
            elif name in values and _is_shape(values[name]) and isinstance(value, tuple):
                found[name] = value[0]
            elif name in functions:
                visit(functions[name])
            elif name in values:
                visit(values[name])  # type: ignore[arg-type]

    visit(ast.parse("get_inputs"))
    first, *others = [name for name, value in found.items() if value > 1] or [""]
    shared = set(_names(functions["get_init_inputs"])) if "get_init_inputs" in functions else set()
    order = [first, *sorted(others, key=lambda name: name in shared)]
    return {name: found[name] for name in order if name}


def _names(node: ast.AST) -> list[str]:
    """The names that are read, in the order of the text."""
    reads = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    reads.sort(key=lambda n: (n.lineno, n.col_offset))
    return [n.id for n in reads]
