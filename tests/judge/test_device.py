"""Which device is taken, and what is done to the others to find out: nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch

from harness import nvml
from harness.errors import MachineError
from harness.judge import device
from harness.judge.process import toolchain

FREE = {"a": 10, "b": 30, "c": 20}


@pytest.fixture
def three_cards(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """A machine with three; what CUDA is asked about their memory."""
    asked = mock.Mock(side_effect=lambda index: (list(FREE.values())[index], 100))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(FREE))
    monkeypatch.setattr(torch.cuda, "mem_get_info", asked)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=list(FREE)[index])
    )
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(device, "_cuda", lambda index: index)
    return asked


@contextlib.contextmanager
def card(uuid: str) -> Iterator[Any]:
    told = SimpleNamespace(nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(free=FREE[uuid]))
    yield told, uuid


def test_auto_takes_the_card_with_most_memory_and_opens_no_other(
    three_cards: mock.Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "card", card)
    assert device.choose("auto") == 1
    three_cards.assert_not_called()


def test_without_nvml_cuda_is_asked(
    three_cards: mock.Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "card", lambda uuid: contextlib.nullcontext())
    assert device.choose("auto") == 1
    assert three_cards.call_count == 3


@pytest.mark.usefixtures("three_cards")
def test_a_card_that_is_named_is_taken() -> None:
    assert device.choose("cuda:2") == 2
    with pytest.raises(MachineError, match="this machine has 3"):
        device.choose("cuda:3")


@pytest.mark.parametrize("name", device.OVERRIDES)
def test_an_environment_by_which_the_judge_alone_would_compute_otherwise_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "")
    assert device.choose("cpu").type == "cpu"
    monkeypatch.setenv(name, "1")
    with pytest.raises(MachineError, match=f"{name} is set: .*; unset it"):
        device.choose("cpu")
    environment = toolchain.worker_environment(
        toolchain.find(), folder=Path("/x"), visible_devices="0", arch=None, max_jobs=1
    )
    assert name not in environment
