"""Numerical switches: as asked for within, and as they were after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from harness.shared.numerics import numerics, set_numerics

MATMUL: Any = torch.backends.cuda.matmul
CUDNN: Any = torch.backends.cudnn


def state() -> dict[str, Any]:
    """What can be read of it: torch refuses to tell where older and newer switches differ."""
    readers: dict[str, Callable[[], Any]] = {
        "matmul": lambda: MATMUL.allow_tf32,
        "cudnn": lambda: CUDNN.allow_tf32,
        "float32": torch.get_float32_matmul_precision,
        "half": lambda: MATMUL.allow_fp16_reduced_precision_reduction,
        "bfloat": lambda: MATMUL.allow_bf16_reduced_precision_reduction,
        "benchmark": lambda: CUDNN.benchmark,
        "dtype": torch.get_default_dtype,
        "device": torch.get_default_device,
        "autocast": lambda: torch.is_autocast_enabled("cpu"),
        "all": lambda: torch.backends.fp32_precision,
        "conv": lambda: CUDNN.conv.fp32_precision,
        "rnn": lambda: CUDNN.rnn.fp32_precision,
    }
    found = {}
    for name, read in readers.items():
        try:
            found[name] = read()
        except (RuntimeError, AttributeError) as error:
            found[name] = type(error)
    return found


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    with numerics(allow_tf32=False):
        yield
        torch.set_default_device(None)


def older() -> None:
    MATMUL.allow_tf32 = CUDNN.allow_tf32 = CUDNN.benchmark = True
    MATMUL.allow_bf16_reduced_precision_reduction = True
    MATMUL.allow_fp16_reduced_precision_reduction = True


def newer() -> None:
    if not hasattr(CUDNN, "conv"):
        pytest.skip("torch 2.9 has it")
    torch.backends.fp32_precision = "tf32"
    CUDNN.conv.fp32_precision = CUDNN.rnn.fp32_precision = MATMUL.fp32_precision = "tf32"


def defaults() -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")


STATES = [older, newer, defaults, lambda: torch.set_float32_matmul_precision("medium")]


@pytest.mark.parametrize("allow_tf32", [False, True])
@pytest.mark.parametrize("set_state", STATES)
def test_as_asked_for_within_and_as_it_was_after(
    set_state: Callable[[], None], allow_tf32: bool
) -> None:
    set_numerics(allow_tf32=allow_tf32)
    wanted = state()
    assert wanted["cudnn"] is wanted["matmul"] is allow_tf32
    set_numerics(allow_tf32=False)
    set_state()
    before = state()
    assert before != wanted
    with torch.autocast("cpu", torch.bfloat16):
        with numerics(allow_tf32=allow_tf32):
            assert state() == wanted
        assert _known(before) <= _known(state() | {"autocast": False})
    assert _known(before) <= _known(state())


def _known(found: dict[str, Any]) -> set[tuple[str, Any]]:
    return {(name, value) for name, value in found.items() if value is not RuntimeError}


def test_what_fails_within_leaves_it_as_it_was() -> None:
    older()
    before = state()
    with pytest.raises(KeyError), numerics(allow_tf32=False):
        raise KeyError
    assert state() == before
