"""`--devices`: a judge for each of several devices of this machine, on cores of its own."""

from __future__ import annotations

from pathlib import Path

from harness.errors import RequestError
from harness.fleet import devices, fleet
from harness.fleet.devices import Place
from harness.fleet.slots import LocalSlot
from harness.records import Row
from harness.run import Observer, Request


def execute(request: Request, names: str, observer: Observer) -> list[Row]:
    """Evaluate everything on the devices that `names` lists.

    Raises `RequestError` or `MachineError`; rows that are known by then are kept.
    """
    places = devices.parse(names)
    types = {place.type for place in places}
    if len(types) > 1:
        raise RequestError("--devices takes GPUs or CPUs, not both at once")
    dealt = devices.deal([place.near for place in places], devices.cores_here())
    if sum(map(len, dealt)) > len(frozenset().union(*dealt)):
        observer.warn("there are fewer cores than devices: judges share cores, and times suffer")
    return fleet.execute(
        request,
        slots(request, places, dealt),
        observer,
        device=types.pop(),
        cache_dir=request.cache_dir,
    )


def slots(request: Request, places: list[Place], dealt: list[frozenset[int]]) -> list[LocalSlot]:
    """A slot for each device, with its cores."""
    logs: Path = request.folder / "logs"
    return [
        LocalSlot(
            name=place.name,
            environment={"CUDA_VISIBLE_DEVICES": place.visible},
            cores=cores,
            neighbours=len(places),
            log=logs / f"judge {place.name}.log".replace(" ", "_").replace(":", "_"),
            silence_s=fleet.silence_s(request),
        )
        for place, cores in zip(places, dealt, strict=True)
    ]
