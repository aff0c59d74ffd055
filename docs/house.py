"""Writes docs/house.md: every module in one line, the first of its own docstring."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = """# The house

Every module in one line, from its own docstring: `python docs/house.py` writes this page. Imports
point down only (`tests/test_layers.py` has the order).

| module | |
|---|---|
"""


def page() -> str:
    """The page as it should be."""
    lines = []
    for file in sorted((ROOT / "harness").rglob("*.py")):
        said = ast.get_docstring(ast.parse(file.read_text())) or ""
        first = said.partition("\n")[0].replace("|", "\\|")
        lines.append(f"| `{file.relative_to(ROOT)}` | {first} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "house.md").write_text(page())
