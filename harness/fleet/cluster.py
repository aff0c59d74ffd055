"""`--ray`: a judge for each GPU of a Ray cluster, or for each CPU, on as many nodes as there are.

An actor asks Ray for one device and keeps a judge beside it, as slots.py starts one; it only
passes messages on. This package travels to the nodes; what it depends on must be there. Nodes
that join later are used; when one is lost, its actor is made again wherever Ray has room.

Covered: actors, judges and nodes that die, or say nothing for too long. Not covered: the loss of
the node that this process runs on, and of Ray's head: the same command goes on where it stopped.

Nothing here imports ray before it is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness
from harness.errors import MachineError, RequestError
from harness.fleet import devices
from harness.fleet.slots import JUDGE, LocalSlot, Lost

if TYPE_CHECKING:
    from harness.records import Row
    from harness.run import Observer, Request

PACKAGE = Path(harness.__file__).resolve().parent
LOOK_S = 0.5  # between looks at whether the run was ended meanwhile
NOTE_S = 1.0  # notes are passed on no more often: they only say that a judge is alive
SAID = 400  # characters of what Ray says
SLACK_S = 60.0  # that an actor gets over its judge


def execute(request: Request, address: str | None, observer: Observer) -> list[Row]:
    """Evaluate everything on a cluster; without `address`, on that of RAY_ADDRESS or on one that
    is started here. Raises `RequestError` or `MachineError`; rows known by then are kept."""
    from harness.fleet import fleet

    ray = _joined(address)
    try:
        kind = device_type(request.settings.device, ray.cluster_resources())
        silence_s = fleet.silence_s(request)
        slots: list[RaySlot] = []

        def grow() -> Sequence[RaySlot]:
            """Slots for what the cluster has more than before."""
            resources = ray.cluster_resources()
            share = request.settings.threads or 1
            count = int(resources.get("GPU", 0)) if kind == "cuda" else _cpus(resources) // share
            more = [
                RaySlot(name=f"judge {n}", kind=kind, cpus=share, silence_s=silence_s)
                for n in range(len(slots), max(1, count))
            ]
            slots.extend(more)
            return more

        return fleet.execute(request, grow(), observer, device=kind, grow=grow)
    finally:
        ray.shutdown()


def _ray() -> Any:
    """The module, an extra. Raises `ImportError`."""
    return importlib.import_module("ray")


def _joined(address: str | None) -> Any:
    """Ray, connected. Raises `MachineError` or `RequestError`."""
    try:
        ray = _ray()
    except ImportError:
        raise MachineError("--ray needs Ray: pip install .[ray]") from None
    # Left to itself, Ray joins whatever cluster it finds running here.
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address.startswith("ray://"):
        raise RequestError("--ray takes HOST:PORT or auto, on a node of the cluster; not ray://")
    try:
        ray.init(
            address=address,
            runtime_env={"py_modules": [str(PACKAGE)], "excludes": ["__pycache__"]},
            log_to_driver=False,
            logging_level="ERROR",
            **({"include_dashboard": False} if address == "local" else {}),
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise MachineError(f"no Ray cluster could be joined: {error}") from None
    return ray


def device_type(setting: str, resources: Mapping[str, float]) -> str:
    """`cuda` or `cpu`: what the setting `device` means on a cluster.

    Raises `RequestError` for a single device, `MachineError` where there are no GPUs.
    """
    gpus = resources.get("GPU", 0) >= 1
    if setting == "auto":
        return "cuda" if gpus else "cpu"
    if setting not in ("cpu", "cuda"):
        raise RequestError(f"--ray takes all GPUs of the cluster: leave out --device {setting}")
    if setting == "cuda" and not gpus:
        raise MachineError("the cluster has no GPUs (ray status lists what it has)")
    return setting


def _cpus(resources: Mapping[str, float]) -> int:
    return int(resources.get("CPU", 0))


@dataclass(kw_only=True)
class RaySlot:
    """A judge beside an actor, wherever Ray puts it."""

    name: str
    kind: str
    cpus: int
    silence_s: float
    command: Sequence[str] | None = None
    _actor: Any = None
    _ended: bool = False

    def start(self, terms: Mapping[str, Any]) -> dict[str, Any]:
        ray = _ray()
        if self._ended:
            raise Lost("ended")
        if self._actor is None:
            self._actor = (
                ray.remote(Relay)
                .options(
                    num_gpus=1 if self.kind == "cuda" else 0,
                    num_cpus=self.cpus,
                    max_restarts=0,
                    max_task_retries=0,
                )
                .remote(self.kind, self.silence_s, self.command)
            )
        actor = self._actor
        self._wait(actor.__ray_ready__.remote(), None)  # however long there is no room
        started = actor.start.remote(json.dumps(dict(terms)))
        return self._told(self._wait(started, self.silence_s + SLACK_S))

    def judge(self, unit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if (actor := self._actor) is None:
            raise Lost("ended")
        stream = actor.judge.options(num_returns="streaming").remote(json.dumps(dict(unit)))
        message: dict[str, Any] = {}
        while not {"done", "refused"} & set(message):
            message = self._told(self._wait(stream, self.silence_s + SLACK_S))
            yield message

    def _wait(self, what: Any, timeout_s: float | None) -> Any:
        """What a reference, or the next of a stream, comes to. Raises `Lost`."""
        ray = _ray()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not ray.wait([what], timeout=LOOK_S)[0]:
                if self._ended:
                    raise Lost("ended")
                if deadline is not None and time.monotonic() > deadline:
                    self._drop()
                    raise Lost(f"it said nothing for {timeout_s:g} s")
            return ray.get(what if isinstance(what, ray.ObjectRef) else next(what))
        except ray.exceptions.RayError as error:
            self._drop()
            raise Lost(" ".join(str(error).split())[:SAID]) from None
        except StopIteration:
            self._drop()
            raise Lost("it ended without an answer") from None

    def _told(self, text: str) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(text)
        if "lost" in message:
            raise Lost(message["lost"])
        return message

    def _drop(self) -> None:
        """The actor, and with it its judge, wherever it still runs."""
        actor, self._actor = self._actor, None
        if actor is not None:
            with contextlib.suppress(Exception):  # it may be gone, and Ray with it
                _ray().kill(actor, no_restart=True)

    def end(self) -> None:
        self._ended = True
        self._drop()


class Relay:
    """The actor: has a judge at its side, and passes on what it says. It never imports torch."""

    def __init__(self, kind: str, silence_s: float, command: Sequence[str] | None) -> None:
        count, index = _place() if kind == "cuda" else (1, 0)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "") if kind == "cuda" else ""
        cores = devices.deal([frozenset()] * count, devices.cores_here())[index]
        self._slot = LocalSlot(
            name="judge",
            environment={"CUDA_VISIBLE_DEVICES": visible},
            cores=cores if count > 1 else None,
            neighbours=count,
            log=Path(os.devnull),
            silence_s=silence_s,
            command=command or JUDGE,
        )
        self._noted = 0.0

    def start(self, terms: str) -> str:
        """A judge's first message, as JSON."""
        try:
            return json.dumps(self._slot.start(json.loads(terms)))
        except Lost as lost:
            return json.dumps({"lost": str(lost)})

    def judge(self, unit: str) -> Iterator[str]:
        """What it says to a unit, as JSON, as it comes."""
        try:
            for message in self._slot.judge(json.loads(unit)):
                if "note" in message and time.monotonic() - self._noted < NOTE_S:
                    continue
                self._noted = time.monotonic()
                yield json.dumps(message)
        except Lost as lost:
            yield json.dumps({"lost": str(lost)})


def _place() -> tuple[int, int]:
    """How many GPUs this node has, and which of them this actor got."""
    ray = _ray()
    context = ray.get_runtime_context()
    here = [node for node in ray.nodes() if node["NodeID"] == context.get_node_id()]
    count = int(here[0]["Resources"].get("GPU", 1)) if here else 1
    ids = context.get_accelerator_ids().get("GPU", [])
    index = int(ids[0]) if ids and ids[0].isdigit() else 0
    return (count, index) if index < count else (1, 0)
