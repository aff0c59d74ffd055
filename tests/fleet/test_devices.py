"""`--devices`: who is meant, and which cores go along."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from harness.errors import MachineError, RequestError
from harness.fleet import devices
from harness.fleet.devices import Place, cpu_list, deal, parse

UUIDS = ("GPU-11", "GPU-12", "GPU-2", "MIG-a1", "MIG-a2")
KNOWN = {
    number: Place(name=f"cuda:{number}", visible=uuid)
    for number, uuid in zip(("0", "1", "2", "3:0", "3:1"), UUIDS, strict=True)
}


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("all", UUIDS),
        ("0,2", ("GPU-11", "GPU-2")),
        ("1, GPU-11", ("GPU-12", "GPU-11")),
        ("GPU-2,MIG-a2", ("GPU-2", "MIG-a2")),
        ("3:1", ("MIG-a2",)),
        ("3", ("MIG-a1", "MIG-a2")),
        ("cpu,cpu", ("", "")),
    ],
)
def test_devices_by_number_uuid_part_and_kind(text: str, visible: tuple[str, ...]) -> None:
    assert tuple(place.visible for place in parse(text, KNOWN)) == visible


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7", "no device '7' here: .*0"),
        ("GPU-1", "no device 'GPU-1'"),  # two begin so
        ("0,GPU-11", "a device twice"),
        ("0,cpu", "cpu beside GPUs"),
        ("", "names no device"),
    ],
)
def test_who_is_not_there_or_comes_twice_is_refused(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        parse(text, KNOWN)


def test_without_gpus_all_is_nothing() -> None:
    with pytest.raises(MachineError, match="--devices cpu"):
        parse("all", {})


def nvml(mig: bool) -> Any:
    """An NVML of two cards, the first in two parts if `mig`; the API of pynvml."""

    def mode(handle: int) -> list[int]:
        if handle == 1:
            raise RuntimeError("Not Supported")
        return [int(mig), int(mig)]

    def part(handle: int, m: int) -> str:
        if m > 1:
            raise RuntimeError("Not Found")
        return f"part{m}"

    return SimpleNamespace(
        NVML_DEVICE_MIG_ENABLE=1,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda n: n,
        nvmlDeviceGetPciInfo=lambda n: SimpleNamespace(busId=f"0000000{n}:1B:00.0"),
        nvmlDeviceGetMigMode=mode,
        nvmlDeviceGetMaxMigDeviceCount=lambda n: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=part,
        nvmlDeviceGetUUID=lambda h: f"MIG-{h}" if isinstance(h, str) else f"GPU-{h}",
    )


@pytest.mark.parametrize(
    ("mig", "listed", "wanted"),
    [
        (False, None, {"0": "GPU-0", "1": "GPU-1"}),
        (True, None, {"0:0": "MIG-part0", "0:1": "MIG-part1", "1": "GPU-1"}),
        (False, "GPU-1", {"0": "GPU-1"}),
        (False, "1,0", {"0": "1", "1": "0"}),
        (False, "", {}),
    ],
)
def test_what_is_here(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    mig: bool,
    listed: str | None,
    wanted: dict[str, str],
) -> None:
    for n in range(2):
        folder = tmp_path / f"bus/pci/devices/000{n}:1b:00.0"
        folder.mkdir(parents=True)
        (folder / "local_cpulist").write_text(f"{8 * n}-{8 * n + 7}\n")
    monkeypatch.setattr(devices, "_SYSFS", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    with mock.patch.dict("sys.modules", pynvml=nvml(mig)):
        found = devices.gpus()
    assert {number: place.visible for number, place in found.items()} == wanted
    for place in found.values():
        card = 1 if place.visible in ("GPU-1", "1") else 0
        assert place.near == frozenset(range(8 * card, 8 * card + 8))


# --- cores --------------------------------------------------------------------------------------


def single(cores: Iterable[int]) -> list[frozenset[int]]:
    return [frozenset({core}) for core in cores]


ANY: frozenset[int] = frozenset()
LOW, HIGH = frozenset(range(8)), frozenset(range(8, 16))


@pytest.mark.parametrize(
    ("near", "cores", "wanted"),
    [
        ([ANY, ANY], single(range(4)), [{0, 1}, {2, 3}]),
        ([ANY] * 3, single(range(8)), [{0, 1}, {2, 3, 4}, {5, 6, 7}]),
        ([HIGH, LOW, HIGH], single(range(16)), [{8, 9, 10, 11}, LOW, {12, 13, 14, 15}]),
        # Hardware threads of a core stay together.
        ([ANY, ANY], [frozenset({n, n + 4}) for n in range(4)], [{0, 4, 1, 5}, {2, 6, 3, 7}]),
        # A neighbourhood without enough cores: all take part.
        ([HIGH, LOW], single(range(8)), [{0, 1, 2, 3}, {4, 5, 6, 7}]),
        # Neighbourhoods that overlap: likewise.
        ([LOW, ANY], single(range(16)), [LOW, HIGH]),
        # Fewer cores than devices: shared.
        ([ANY] * 3, single(range(2)), [{0}, {0}, {1}]),
    ],
)
def test_cores_are_dealt_out(
    near: list[frozenset[int]], cores: list[frozenset[int]], wanted: list[set[int]]
) -> None:
    assert deal(near, cores) == wanted


@pytest.mark.parametrize("count", range(1, 17))
def test_no_core_goes_to_two_and_none_is_left(count: int) -> None:
    dealt = deal([ANY] * count, single(range(16)))
    assert all(dealt)
    assert sorted(core for own in dealt for core in own) == list(range(16))


def test_core_lists_as_linux_writes_them() -> None:
    assert cpu_list("0-2,8,10-11\n") == {0, 1, 2, 8, 10, 11}
    assert cpu_list("\n") == frozenset()


def test_the_cores_of_this_machine_are_those_that_may_be_used() -> None:
    with mock.patch("os.sched_getaffinity", return_value={0}):
        assert devices.cores_here() == [frozenset({0})]
