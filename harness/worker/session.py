"""What a worker does: one method per order, and the table of them.

Each takes the order's JSON and returns (answer, trees). The order of orders is the judge's
business. Orders that time are in session_timing.py, those that look at memory and kernels in
session_profiling.py.
"""

from __future__ import annotations

import gc
import inspect
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness.shared.binding import Binding
from harness.shared.numerics import set_numerics
from harness.shared.player import Player
from harness.shared.problem import Instance
from harness.shared.trial import Trial
from harness.worker import calls, loading
from harness.worker.building import Builder
from harness.worker.faults import ContractFault, MachineFault
from harness.worker.session_profiling import ProfilingOrders
from harness.worker.session_state import Answer
from harness.worker.session_timing import TimingOrders


class Session(TimingOrders, ProfilingOrders):
    """A worker's state and all of its orders."""

    # --- set-up ---------------------------------------------------------------------------

    def prepare(self, order: dict[str, Any]) -> Answer:
        """Precision flags, threads, device and problem; the reference with its weights."""
        set_numerics(allow_tf32=order["allow_tf32"])
        if order.get("threads"):
            torch.set_num_threads(order["threads"])
        device = torch.device(order["device"])
        self.weights_seed = order["weights_seed"]
        self.instance = self.reference = self.candidate = self.timer = None
        if device.type == "cuda":
            try:
                torch.cuda.init()
                torch.ones(1, device=device)
            except RuntimeError as error:
                raise MachineFault(f"the device cannot be used: {error}") from error
        self.instance = Instance(
            source=order["problem_source"],
            path=order["problem_path"],
            size=order["size"],
            dtype=getattr(torch, order["dtype"]),
            device=device,
        )
        self.base_bytes["reference"] = _allocated(device)
        self.restored, self.mutates = bool(order.get("restored")), bool(order.get("mutates"))
        self.reference = self._side("reference", self.instance.model(self.weights_seed))
        return {"threads": torch.get_num_threads(), "python": platform.python_version()}, {}

    def build(self, order: dict[str, Any]) -> Answer:
        """Execute the solution's file, which builds what it builds."""
        loading.fix_devices()
        self.builder.source, self.builder.source_name = order["source"], order["file_name"]
        try:
            self.model_class = loading.import_solution(
                order["source"], self.folder, order["file_name"]
            )
        finally:
            self.order["builds"] = self._builds()
        if torch.cuda.is_initialized():
            self.import_bytes = torch.cuda.memory_allocated()
        return {"builds": self._builds()}, {}

    def load(self, order: dict[str, Any]) -> Answer:
        """Construct ModelNew and give it the reference's weights.

        `outputs`: paths of the outputs that are differentiated. `constants`: buffers that
        ModelNew may do without.
        """
        assert self.instance is not None
        assert self.reference is not None
        self.base_bytes["candidate"] = _allocated(self.instance.device)
        try:
            model = self.instance.construct(self.model_class, self.weights_seed)
        except TypeError as error:
            if _raised_by_call(error):
                raise ContractFault(f"ModelNew does not take Model's arguments: {error}") from error
            raise
        finally:
            self.order["builds"] = self._builds()
        if not isinstance(model, torch.nn.Module):
            raise ContractFault(f"ModelNew makes a {type(model).__name__}, not an nn.Module")
        _check_arguments(model, self.instance)
        names, note = loading.adopt_state(
            model, self.reference.model, constants=order.get("constants", ())
        )
        outputs = tuple(order["outputs"])
        self.reference.binding.outputs = outputs
        self._set_candidate(model, Binding(model=model, names=names, outputs=outputs))
        return {"note": note, "builds": self._builds()}, {}

    def compile(self, order: dict[str, Any]) -> Answer:
        """The reference again, eager or compiled, as the candidate: a baseline, no solution."""
        assert self.instance is not None
        mode = order["mode"]
        model: Any = self.instance.model(self.weights_seed)
        if mode != "eager":
            model = torch.compile(model, mode=None if mode == "default" else mode)
        self._set_candidate(model)
        return {}, {}

    def _set_candidate(self, model: Any, binding: Binding | None = None) -> None:
        self.candidate = self._side("candidate", model, binding)
        self.timer = None

    def _side(self, name: str, model: Any, binding: Binding | None = None) -> calls.Side:
        return calls.Side(name, model, binding, restored=self.restored, mutates=self.mutates)

    def _builds(self) -> list[dict[str, Any]]:
        return [vars(record) for record in self.builder.records]

    # --- checks ---------------------------------------------------------------------------

    def play(self, order: dict[str, Any]) -> Answer:
        """The calls of a trial: outputs, gradients, and the inputs as they are after them."""
        side, instance = self._candidate()
        player = Player(
            instance=instance,
            binding=side.binding,
            finish=calls.plain,
            around=calls.Poisoned(device=instance.device),
        )
        played = player.play(Trial.from_json(order["trial"]))
        self._synchronize()
        results = [vars(result) for result in played.results]
        return {}, {"results": results, "later": played.later, "state": played.state}

    def ping(self, order: dict[str, Any]) -> Answer:
        """Whether the device still works: after some faults nothing does."""
        _, instance = self._candidate()
        torch.ones(1, device=instance.device).add_(1)
        self._synchronize()
        return {}, {}


ORDERS: dict[str, Callable[[Session, dict[str, Any]], Answer]] = {
    "prepare": Session.prepare,
    "build": Session.build,
    "load": Session.load,
    "compile": Session.compile,
    "play": Session.play,
    "ping": Session.ping,
    "warm_up": Session.warm_up,
    "epoch": Session.epoch,
    "reveal": Session.reveal,
    "unseen": Session.unseen,
    "settle": Session.settle,
    "stopwatch": Session.stopwatch,
    "samples": Session.samples,
    "forget": Session.forget,
    "memory": Session.memory,
    "profile": Session.profile,
    "kernels": Session.kernels,
    "nsight": Session.nsight,
    "calibrate": Session.calibrate,
}


def begin(first: dict[str, Any]) -> Session:
    """The session that the judge's `first` message asks for, in the working directory. From now on
    what is built goes through its build cache."""
    builder = Builder(
        cache=Path(first["build_cache"]),
        salt=first["salt"],
        run=first["run"],
        lean=first["lean_builds"],
    )
    builder.install()
    return Session(folder=Path.cwd(), builder=builder)


def _allocated(device: torch.device) -> int:
    gc.collect()
    return torch.cuda.memory_allocated() if device.type == "cuda" else 0


def _raised_by_call(error: TypeError) -> bool:
    """True where the call itself was refused, not something inside of the constructor."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is Instance.construct.__code__


def _check_arguments(model: torch.nn.Module, instance: Instance) -> None:
    """Raises `ContractFault` where ModelNew.forward cannot take Model.forward's arguments: those
    that it needs, with some or all of those that have defaults."""
    try:
        signature = inspect.signature(model.forward)
    except ValueError:  # a native callable has no signature; the call will tell
        return
    names, problem = instance.argument_names, ""
    for count in range(instance.required_arguments, len(names) + 1):
        try:
            signature.bind(*names[:count])
            return
        except TypeError as error:
            problem = str(error)
    raise ContractFault(f"ModelNew.forward does not take ({', '.join(names)}): {problem}")
