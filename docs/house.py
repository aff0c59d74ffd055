"""Writes docs/house.md: every module in one line, the first of its own docstring."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = """# The house

Every module in one line, from its own docstring: `python docs/house.py` writes this page. Imports
point down only (`tests/test_layers.py` has the order).
"""


def said(file: Path) -> str:
    """The first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return text.partition("\n")[0].replace("|", "\\|")


def folder(path: Path) -> str:
    """A package: what it is for, then its modules."""
    rows = [
        f"| `{file.name}` | {said(file)} |\n"
        for file in sorted(path.glob("*.py"))
        if file.name != "__init__.py"
    ]
    title = f"\n## {path.relative_to(ROOT)}/\n\n{said(path / '__init__.py')}\n\n"
    return title + "| module | |\n|---|---|\n" + "".join(rows)


def page() -> str:
    """The page as it should be."""
    packages = sorted(init.parent for init in (ROOT / "harness").rglob("__init__.py"))
    return HEAD + "".join(map(folder, packages))


if __name__ == "__main__":
    (ROOT / "docs" / "house.md").write_text(page())
