"""An exception of a solution as data: the kind is by type, never by a word in its message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.errors import ProblemError
from harness.shared.binding import NoBackward
from harness.worker import faults
from harness.worker.faults import (
    CompileFault,
    ContractFault,
    MachineFault,
    describe,
)


class OutOfMemory(Exception):
    """Only called so."""


def refused() -> BaseException:
    """What torch raises where the CPU has no memory left."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50)
    return caught.value


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("first\nsecond"), "exception", "ValueError: first"),
        (KeyError("x"), "exception", "KeyError: 'x'"),
        (KeyboardInterrupt(), "exception", "KeyboardInterrupt"),
        (SystemExit(0), "exception", "SystemExit: 0"),
        (MemoryError(), "out_of_memory", "MemoryError"),
        (torch.OutOfMemoryError("tried"), "out_of_memory", "OutOfMemoryError: tried"),
        (refused(), "out_of_memory", "RuntimeError: [enforce fail"),
        (RuntimeError("no: " + str(refused())), "exception", "RuntimeError: no"),
        (ValueError(str(refused())), "exception", "ValueError: [enforce"),
        (OutOfMemory("out of memory"), "exception", "OutOfMemory: out of memory"),
        (RuntimeError("compile error: CUDA out of memory"), "exception", "RuntimeError: compile"),
        (ContractFault("broken"), "contract", "broken"),
        (CompileFault("line", "the whole log"), "compile", "line"),
        (NoBackward("none"), "no_backward", "none"),
        (MachineFault("no device"), "machine", "no device"),
        (ProblemError("why", path="p.py", line=3), "problem", "p.py:3: why"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_fault_has_a_kind_and_one_line(error: BaseException, kind: str, message: str) -> None:
    found = describe(error)
    assert found["kind"] == kind
    assert found["message"].startswith(message)
    assert "\n" not in found["message"]
    json.dumps(found)


def test_the_message_names_the_line_of_the_solutions_file(tmp_path: Path) -> None:
    """The last of its lines on the way to what raised; none where it was not on the way."""
    file = tmp_path / "mine.py"
    text = "import json\n\ndef inner(x):\n    return json.loads(x)\n\ndef outer(x):\n    inner(x)\n"
    space: dict[str, Any] = {}
    exec(compile(text, str(file), "exec"), space)
    with pytest.raises(ValueError, match="Expecting") as caught:
        space["outer"]("{")
    message = describe(caught.value)["message"]
    assert describe(caught.value, file=file)["message"] == f"{message} (mine.py:4)"
    assert describe(caught.value, file=tmp_path / "other.py")["message"] == message
    assert describe(ValueError("no"), file=file)["message"] == "ValueError: no"
    assert describe(MemoryError(), file=file)["message"] == "MemoryError"


def test_the_text_is_the_traceback_and_for_a_build_the_compilers_log_first() -> None:
    try:
        raise CompileFault("line", "the whole log")
    except CompileFault as error:
        text = describe(error)["text"]
    assert text.startswith("the whole log")
    assert "Traceback" in text


def test_text_without_end_is_cut() -> None:
    found = describe(RuntimeError("x" * 1_000_000))
    assert len(found["text"]) <= faults.MAX_TRACEBACK
    assert len(found["message"]) <= 2000


def test_an_error_that_cannot_be_shown_is_described_all_the_same() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert describe(Hostile())["kind"] == "exception"
