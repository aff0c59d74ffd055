"""What messages say is grammar: what is counted agrees with its number."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from harness.wording import counted

HARNESS = Path(__file__).resolve().parent.parent / "harness"
#: What messages count. (Not `byte`, of which there are many, nor what a wire's peer is told.)
NOUNS = (
    *("character", "core", "device", "draw", "element", "epoch", "error", "extension"),
    *("GPU", "gradient", "judge", "kernel", "line", "mutant", "node", "problem", "row"),
    *("sample", "solution", "tensor", "thread", "time", "trial", "worker"),
)
_PLURAL = re.compile(rf" (\w+ )?({'|'.join(NOUNS)})(s|\(s\))\b")


def test_one_is_one() -> None:
    counts = [counted(number, "older row") for number in range(3)]
    assert counts == ["0 older rows", "1 older row", "2 older rows"]


def plurals(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string in which a plural follows a whole number, or `(s)` a word."""
    for node in ast.walk(ast.parse(source)):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for value, text in itertools.pairwise(parts):
            # A value with a format, such as `.1f`, is a measurement.
            whole = isinstance(value, ast.FormattedValue) and value.format_spec is None
            if whole and isinstance(text, ast.Constant) and _PLURAL.match(str(text.value)):
                yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Constant) and re.search(r"[a-z]\(s\)", str(node.value)):
            yield node.lineno, ast.unparse(node)


def test_nothing_is_counted_in_the_plural_alone() -> None:
    source = """f'{n} older rows' + f'{n} row' + f"{counted(n, 'row')}" + 'row(s)'"""
    assert {text for _, text in plurals(source)} == {"f'{n} older rows'", "'row(s)'"}
    found = [
        f"{file.name}:{line}: {text}"
        for file in HARNESS.rglob("*.py")
        for line, text in plurals(file.read_text())
    ]
    assert found == []
    page = (HARNESS / "report" / "templates" / "page.html").read_text()
    assert re.findall(rf"\}}\}} (?:block|{'|'.join(NOUNS)})s\b", page) == []
