"""What the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(str, Enum):
    """`MISSING`: the main job would not work here; `WARNING`: it does less, or measures worse."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing looked at; `remedy` is a command, or what to change, where it is not ok."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def finding(name: str, state: State, detail: str, remedy: str = "") -> Finding:
    """A `Finding`, in the order of its fields."""
    return Finding(name=name, state=state, detail=detail, remedy=remedy)
