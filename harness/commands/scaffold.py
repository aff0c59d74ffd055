"""Skeletons of a problem and of its solutions, which evaluate as they are.

A problem that still has the skeleton's Model gets solutions that compute it, with backward. For
any other problem nobody here knows a kernel: its solution holds a copy of the reference and an
example that is not called, so it is right and says of itself that no kernel of its own ran
(`not_exercised` where it builds one, else the flag `library_only`). No file is overwritten.
"""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

from harness import catalog, syntax
from harness.errors import MachineError, RequestError, hint
from harness.records import Problem

TEMPLATES = Path(__file__).resolve().parent / "templates"
LANGUAGES = ("cuda", "triton", "cpp", "python")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def new_problem(name: str, folder: Path) -> Path:
    """Write the skeleton of a problem; its file. Raises `RequestError`, `MachineError`."""
    _require_name(name)
    problems = catalog.find_problems(folder) if folder.is_dir() else {}
    known = {Path(known).name.lower(): path for known, path in problems.items()}
    if name.lower() in known:
        raise RequestError(f"there is a problem {name!r} already: {known[name.lower()]}")
    return _write(folder / f"{name}.py", _template("problem"))


def new_solution(problem_name: str, name: str, language: str, problems: Path, folder: Path) -> Path:
    """Write the skeleton of a solution of a problem, by name or path; its file.

    Raises `RequestError`, `MachineError`, and `ProblemError` for a problem that cannot be read.
    """
    if language not in LANGUAGES:
        raise RequestError(f"language {language!r}: {hint(language, LANGUAGES, 'languages')}")
    _require_name(name)
    problem = catalog.load_problem(problem_name, problems)
    place = folder / problem.name
    for file in place.glob("*") if place.is_dir() else ():
        if file.suffix.lower() in catalog.SUFFIXES and file.stem.lower() == name.lower():
            raise RequestError(f"there is a solution {name!r} already: {file}")
    return _write(place / f"{name}.py", solution_text(problem, name, language))


def solution_text(problem: Problem, name: str, language: str) -> str:
    """The text of a skeleton."""
    tree = syntax.parse(problem.source)
    own = _model_dump(tree) == _model_dump(syntax.parse(_template("problem")))
    text = _template(f"{'solution' if own else 'delegate'}_{language}")
    parameters, arguments = _signature(tree)
    imports, reference = _reference(problem.source, tree)
    values = {
        "@PROBLEM@": re.sub(r"[^\w./ -]", "_", problem.name),  # it stands in a docstring
        "@EXTENSION@": "new_" + re.sub(r"\W", "_", f"{problem.name}_{name}", flags=re.ASCII),
        "@PARAMETERS@": parameters,
        "@ARGUMENTS@": arguments,
        "@REFERENCE@": reference,
    }
    text = _with_imports(text, imports)
    for token, value in values.items():
        text = text.replace(token, value)
    return text


def _with_imports(text: str, imports: list[str]) -> str:
    """A template whose own imports, after the line `@IMPORTS@`, are merged with others."""
    if "@IMPORTS@\n" not in text:
        return text
    before, after = text.split("@IMPORTS@\n")
    own = list(itertools.takewhile(str.strip, after.splitlines()))
    future = [line for line in imports if "__future__" in line]
    others = {*own, *imports} - {*future}
    block = [*future, *sorted(others, key=lambda line: (line.startswith("from"), line))]
    rest = after.removeprefix("".join(f"{line}\n" for line in own))
    return before + "".join(f"{line}\n" for line in block) + rest


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name.lower() == "readme":
        raise RequestError(
            f"{name!r} cannot be a name: take letters, digits, _ and -, 64 at most, "
            "beginning with a letter or a digit"
        )


def _template(name: str) -> str:
    return (TEMPLATES / f"{name}.py.txt").read_text(encoding="utf-8")


def _write(path: Path, text: str) -> Path:
    if path.exists():
        raise RequestError(f"{path} exists: take another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("x", encoding="utf-8")
        try:
            with file:
                file.write(text)
        except OSError:
            path.unlink()  # half of it would be in the way of the next attempt
            raise
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from None
    return path


# --- what a problem's text says of its Model ------------------------------------------------------


def _model(tree: ast.Module) -> ast.ClassDef | None:
    classes = [node for node in syntax.top_level(tree) if isinstance(node, ast.ClassDef)]
    return next((node for node in reversed(classes) if node.name == "Model"), None)


def _model_dump(tree: ast.Module) -> str | None:
    """The code of Model without its docstrings; equal for equal code."""
    model = _model(tree)
    if model is None:
        return None
    copy = ast.parse(ast.unparse(model))
    for node in ast.walk(copy):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(copy)


def _signature(tree: ast.Module) -> tuple[str, str]:
    """Parameters of Model.forward after `self`, and the arguments that hand them on."""
    methods = [n for n in getattr(_model(tree), "body", ()) if isinstance(n, ast.FunctionDef)]
    forward = next((m for m in methods if m.name == "forward"), None)
    plain = forward is not None and len([*forward.args.posonlyargs, *forward.args.args]) > 0
    if forward is None or not plain or forward.decorator_list:
        return "*inputs, **options", "*inputs, **options"
    taken = forward.args
    first = taken.posonlyargs or taken.args
    own = first.pop(0)  # self
    texts = [a.arg for a in [*taken.posonlyargs, *taken.args] if a is not own]
    texts += [f"*{taken.vararg.arg}"] if taken.vararg else []
    texts += [f"{a.arg}={a.arg}" for a in taken.kwonlyargs]
    texts += [f"**{taken.kwarg.arg}"] if taken.kwarg else []
    return ast.unparse(taken), ", ".join(texts)


def _reference(source: str, tree: ast.Module) -> tuple[list[str], str]:
    """What its Model needs of a problem, as it is written: imports, and all other statements."""
    needed, kept = {"Model"}, set[int]()
    binds = [syntax.bound_names(ast.Module([node], [])) for node in tree.body]
    grown = True
    while grown:
        grown = False
        for number, node in enumerate(tree.body):
            if number not in kept and (binds[number] & {*needed, "*"} or _is_future(node)):
                kept.add(number)
                needed |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                grown = True
    nodes = [tree.body[number] for number in sorted(kept)]
    imports = [_written(source, n) for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]
    others = [_written(source, n) for n in nodes if not isinstance(n, ast.Import | ast.ImportFrom)]
    return imports, "\n".join(others).strip("\n")


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _written(source: str, node: ast.stmt) -> str:
    """The lines of a statement, decorators included; blank lines around a definition."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    text = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
    return f"\n\n{text}" if isinstance(node, ast.ClassDef | ast.FunctionDef) else text
