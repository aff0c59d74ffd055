"""`--devices`: which devices of this machine, and which of its cores go with each.

A GPU is named by its number as `nvidia-smi -L` counts, by its UUID or the beginning of it, or is
one of `all`; a part of a GPU (MIG) by its UUID or as GPU:PART. Where CUDA_VISIBLE_DEVICES is
set, numbers count what it lists, and nothing else is taken. No CUDA context is made here.

Cores are dealt out whole (hardware threads of a core stay together), to each GPU from those
that are near to it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import nvml
from harness.errors import MachineError, RequestError, hint

CPU = "cpu"
_NAME = re.compile(r"cpu|all|\d+(:\d+)?|(GPU|MIG)-[\w./-]+")
_SYSFS = Path("/sys")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A device: what CUDA_VISIBLE_DEVICES is to be for it, and what people call it.

    `near`: the host cores that its bus is at; empty: unknown.
    """

    name: str
    visible: str
    near: frozenset[int] = frozenset()

    @property
    def type(self) -> str:
        return "cuda" if self.visible else CPU


def parse(text: str, known: Mapping[str, Place] | None = None) -> list[Place]:
    """The devices that `--devices` names. `known`: number -> device of this machine.

    Raises `RequestError` for a name that is none or comes twice, `MachineError` where there are
    no GPUs.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise RequestError("--devices names no device: all, numbers, UUIDs, or cpu,cpu")
    for name in names:
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"--devices names {name!r}: take all, numbers or UUIDs as nvidia-smi -L has, or cpu"
            )
    if CPU in names:
        if set(names) != {CPU}:
            raise RequestError("--devices names cpu beside GPUs: a run is of one kind of device")
        return [Place(name=f"cpu {n}", visible="") for n in range(len(names))]
    known = gpus() if known is None else known
    if not known:
        raise MachineError("no CUDA device can be used here; check nvidia-smi, or --devices cpu")
    places = [place for name in names for place in _named(name, known)]
    if len({place.visible for place in places}) != len(places):
        raise RequestError(f"--devices {text} names a device twice")
    return places


def _named(name: str, known: Mapping[str, Place]) -> list[Place]:
    if name == "all":
        return list(known.values())
    if name in known:
        return [known[name]]
    if parts := [place for number, place in known.items() if number.startswith(f"{name}:")]:
        return parts
    if name.startswith(("GPU-", "MIG-")):
        found = [place for place in known.values() if place.visible.startswith(name)]
        if len(found) == 1:
            return found
    raise RequestError(f"no device {name!r} here: {hint(name, known, 'devices')}")


def gpus() -> dict[str, Place]:
    """Number -> GPU, or GPU:PART where a GPU is in parts; none without NVML or a driver."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = _by_nvml()
    if listed is None:
        import torch  # late: a node of a cluster has other uses for this module

        count = 0 if found else torch.cuda.device_count()  # as with AMD's, which NVML knows not
        return found or {str(n): Place(name=f"cuda:{n}", visible=str(n)) for n in range(count)}
    names = [name.strip() for name in listed.split(",") if name.strip() and name.strip() != "-1"]
    near = {place.visible: place.near for place in found.values()}
    near |= {number: place.near for number, place in found.items()}
    return {
        str(n): Place(name=f"cuda:{n}", visible=name, near=near.get(name, frozenset()))
        for n, name in enumerate(names)
    }


def _by_nvml() -> dict[str, Place]:
    found: dict[str, Place] = {}
    with contextlib.suppress(Exception), nvml.library() as library:
        for n in range(library.nvmlDeviceGetCount()):
            handle = library.nvmlDeviceGetHandleByIndex(n)
            near = _near(library.nvmlDeviceGetPciInfo(handle).busId)
            parts = _parts(library, handle)
            uuids = {f"{n}:{m}": uuid for m, uuid in enumerate(parts)}
            for number, uuid in (uuids or {str(n): library.nvmlDeviceGetUUID(handle)}).items():
                found[number] = Place(name=f"cuda:{number}", visible=uuid, near=near)
    return found


def _parts(library: Any, handle: Any) -> list[str]:
    """UUIDs of a GPU's MIG devices; none where it is whole."""
    uuids = []
    with contextlib.suppress(Exception):  # as GPUs without MIG raise
        if library.nvmlDeviceGetMigMode(handle)[0] != library.NVML_DEVICE_MIG_ENABLE:
            return []
        for m in range(library.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with contextlib.suppress(Exception):  # a part that is not there
                part = library.nvmlDeviceGetMigDeviceHandleByIndex(handle, m)
                uuids.append(str(library.nvmlDeviceGetUUID(part)))
    return uuids


def _near(bus_id: str | bytes) -> frozenset[int]:
    """The cores at a PCI device, from sysfs (NVML writes eight digits of domain, it has four)."""
    text = (bus_id.decode() if isinstance(bus_id, bytes) else bus_id).lower()
    domain, _, rest = text.partition(":")
    path = _SYSFS / "bus/pci/devices" / f"{domain[-4:]}:{rest}" / "local_cpulist"
    with contextlib.suppress(OSError, ValueError):
        return cpu_list(path.read_text())
    return frozenset()


def cpu_list(text: str) -> frozenset[int]:
    """`0-3,8` as Linux writes it. Raises `ValueError`."""
    cores: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cores |= set(range(int(first), int(last or first) + 1))
    return frozenset(cores)


# --- cores --------------------------------------------------------------------------------------


def deal(near: Sequence[frozenset[int]], cores: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Cores for each of several devices, none for two, as far as there are enough.

    `near`: of each device, the CPUs that it is near to (empty: any). `cores`: the machine's
    cores, each as the set of its hardware threads. A device whose neighbourhood has too few
    cores takes part in dealing out all; where there are fewer cores than devices, cores are
    shared.
    """
    whole = sorted(cores, key=min)
    groups: dict[frozenset[int], list[int]] = {}
    for n, wanted in enumerate(near):
        groups.setdefault(wanted, []).append(n)
    pools = {w: [c for c in whole if c <= w] if w else whole for w in groups}
    crowded = any(len(pools[w]) < len(members) for w, members in groups.items())
    overlap = sum(len(pool) for pool in pools.values()) > len(set().union(*pools.values()))
    if crowded or overlap:
        groups, pools = {frozenset(): list(range(len(near)))}, {frozenset(): whole}
    dealt: dict[int, frozenset[int]] = {}
    for wanted, members in groups.items():
        pool, count = pools[wanted], len(members)
        for place, n in enumerate(members):
            first, last = place * len(pool) // count, (place + 1) * len(pool) // count
            own = pool[first:last] or [pool[place % len(pool)]]
            dealt[n] = frozenset().union(*own)
    return [dealt[n] for n in range(len(near))]


def cores_here() -> list[frozenset[int]]:
    """The cores that this process may use, each as the set of its hardware threads."""
    allowed = os.sched_getaffinity(0)
    found = set()
    for cpu in allowed:
        path = _SYSFS / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        siblings = frozenset({cpu})
        with contextlib.suppress(OSError, ValueError):
            siblings = cpu_list(path.read_text())
        found.add(siblings & allowed | {cpu})
    return sorted(map(frozenset, found), key=min)
