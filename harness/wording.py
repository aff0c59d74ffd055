"""How messages say what they say, the same everywhere."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """`1 row`, `2 rows`: `what` is in the singular, and takes an `s`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
