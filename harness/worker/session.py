"""What a worker holds between orders, and one function per order.

Each function takes the order's JSON and returns (answer, trees). The order of orders is the
judge's business.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import inspect
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from harness.binding import Binding
from harness.draws import Draw
from harness.player import Player
from harness.problem import Instance
from harness.trial import Trial
from harness.worker import (
    calls,
    capability,
    kernels,
    loading,
    memory,
    meters,
    nsight,
    provenance,
    timing,
)
from harness.worker.building import Builder
from harness.worker.faults import ContractFault, MachineFault

Answer = tuple[dict[str, Any], dict[str, Any]]


@dataclass(kw_only=True)
class Session:
    """State of one worker. `reference` is the partner of the timing, never an answer key."""

    folder: Path
    builder: Builder
    instance: Instance | None = None
    reference: calls.Side | None = None
    candidate: calls.Side | None = None
    timer: timing.Timer | None = None
    model_class: Any = None
    base_bytes: dict[str, int] = field(default_factory=dict)
    import_bytes: int = 0
    weights_seed: int = 0
    restored: bool = False
    mutates: bool = False
    order: dict[str, Any] = field(default_factory=dict)
    past: list[dict[str, Any]] = field(default_factory=list)

    def remember(self, order: dict[str, Any]) -> None:
        """Keep what another process would have to be told to be where this one is."""
        if order["order"] in ("build", "prepare", "load"):
            self.past.append(order)

    # --- set-up ---------------------------------------------------------------------------

    def prepare(self, order: dict[str, Any]) -> Answer:
        """Precision flags, threads, device and problem; the reference with its weights."""
        set_precision(allow_tf32=order["allow_tf32"])
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
        assert self.reference is not None
        mode = order["mode"]
        model: Any = self.instance.model(self.weights_seed)
        if mode != "eager":
            model = torch.compile(model, mode=None if mode == "default" else mode)
        self._set_candidate(model)
        return {}, {}

    def _set_candidate(self, model: Any, binding: Binding | None = None) -> None:
        assert self.instance is not None
        assert self.reference is not None
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
            around=functools.partial(calls.poisoned, instance.device),
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

    def _candidate(self) -> tuple[calls.Side, Instance]:
        assert self.instance is not None
        assert self.candidate is not None
        return self.candidate, self.instance

    def _synchronize(self) -> None:
        assert self.instance is not None
        if self.instance.device.type == "cuda":
            torch.cuda.synchronize()

    # --- timing ---------------------------------------------------------------------------

    def warm_up(self, order: dict[str, Any]) -> Answer:
        candidate, instance = self._candidate()
        assert self.reference is not None
        self.timer = timing.Timer(
            instance=instance,
            reference=self.reference,
            candidate=candidate,
            meter=meters.METERS[instance.device.type](instance.device),
            mix=order["mix"],
        )
        answer = self.timer.warm_up(
            order["mode"], order["seed"], calls=order["calls"], seconds=order["seconds"]
        )
        return answer, {}

    def epoch(self, order: dict[str, Any]) -> Answer:
        assert self.timer is not None
        return (
            self.timer.epoch(
                order["mode"],
                seeds=order["seeds"],
                grad_seeds=order["grad_seeds"],
                blocks=order["blocks"],
                order_seed=order["order_seed"],
            ),
            {},
        )

    def reveal(self, order: dict[str, Any]) -> Answer:
        """The output of one timed call that the judge has chosen after the epoch."""
        assert self.timer is not None
        output = self.timer.kept[order["unit"]][order["call"]]
        return {}, {"output": output}

    def stopwatch(self, order: dict[str, Any]) -> Answer:
        """Calls that the judge times."""
        assert self.timer is not None
        self.timer.stopwatch(
            order["mode"],
            mix_seed=order["mix_seed"],
            passes=order["passes"],
            touch=order["touch"],
            seeded=order["seeded"],
        )
        return {}, {}

    def samples(self, order: dict[str, Any]) -> Answer:
        """A sample of what each of them returned."""
        assert self.timer is not None
        return {}, {"samples": self.timer.samples(order["sample_seed"])}

    def settle(self, order: dict[str, Any]) -> Answer:
        """The values that the judge's clock begins from; with `host`, what the host needs."""
        assert self.timer is not None
        self.timer.settle(order["mix_seed"])
        if not order["host"]:
            return {}, {}
        host_ms = self.timer.host_ms(order["mode"], touch=order["touch"], seeded=order["seeded"])
        self.timer.settle(order["mix_seed"])
        return {"host_ms": host_ms}, {}

    def forget(self, order: dict[str, Any]) -> Answer:
        """Let go of the inputs and outputs of the last timing."""
        self.timer = None
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        with contextlib.suppress(AttributeError):  # glibc's: what its heap keeps is not held
            ctypes.CDLL(None).malloc_trim(0)
        return {}, {}

    # --- memory, provenance ---------------------------------------------------------------

    def memory(self, order: dict[str, Any]) -> Answer:
        """Peak MiB of one side: what it has allocated since before it was made, and a call's."""
        assert self.instance is not None
        side = self.reference if order["side"] == "reference" else self.candidate
        assert side is not None
        base = self.base_bytes[order["side"]]
        if side is self.candidate:
            base -= self.import_bytes  # what the solution took at import is its own
        try:
            peak = memory.peak(self.instance, side, order["mode"], order["seed"], base)
        except memory.PeakReset:
            return {"peak_mib": 0.0, "held_mib": 0.0, "reset": True}, {}
        return {"peak_mib": peak.used_mib, "held_mib": peak.held_mib, "reset": False}, {}

    def profile(self, order: dict[str, Any]) -> Answer:
        """Which kernels one call of `mode` ran, and the share that are the solution's own."""
        side, instance = self._candidate()
        call = calls.call_set(
            instance, Draw(seed=order["seed"]), grad=order["mode"] != "forward", grad_seed=1
        )

        def once() -> None:
            side.run(order["mode"], call, None)

        once()
        if instance.device.type != "cuda":
            count, share = provenance.native_calls(once, self.builder.modules)
            unseen = not all(map(vars, self.builder.modules))  # a library that defines no operator
            return {
                "native_calls": None if unseen and not count else count,
                "own_share": share if count else None,
            }, {}
        times = provenance.cuda_kernels(once)
        libraries = [Path(r.library) for r in self.builder.records if r.library]
        triton = provenance.triton_kernels([loading.MODULE_NAME])
        return {
            "kernels": times,
            "own_share": provenance.own_share(times, libraries, triton),
        }, {}

    def kernels(self, order: dict[str, Any]) -> Answer:
        """What one call of `mode` of a side ran, one by one."""
        side, mode, call = self.call_of(order)
        assert self.instance is not None
        found = kernels.measured(
            functools.partial(side.prepare, mode, call),
            functools.partial(side.run, mode, call),
            self.instance.device,
            order["calls"],
        )
        return {"kernels": found}, {}

    def nsight(self, order: dict[str, Any]) -> Answer:
        """Nsight Compute's figures of one call of `mode` of a side, for kernels named."""
        torch.cuda.empty_cache()  # the other process needs as much
        first = {
            "build_cache": str(self.builder.cache),
            "salt": self.builder.salt,
            "lean_builds": self.builder.lean,
        }
        orders = [first, *self.past, order]
        found = nsight.figures(order["ncu"], orders, self.folder, order["limit_s"])
        names = {name: found.get(provenance.bare_name(name)) for name in order["names"]}
        return {"figures": names}, {}

    def call_of(self, order: dict[str, Any]) -> tuple[calls.Side, str, calls.CallSet]:
        """The side, mode and call that an order names."""
        assert self.instance is not None
        side = self.reference if order["side"] == "reference" else self.candidate
        assert side is not None
        draw, mode = Draw(seed=order["seed"]), order["mode"]
        call = calls.call_set(self.instance, draw, grad=mode != "forward", grad_seed=1)
        return side, mode, call

    def calibrate(self, order: dict[str, Any]) -> Answer:
        """What the device can do: memory by the share of bytes written, matrix products, and
        what an event pair costs."""
        assert self.instance is not None
        device, dtype = self.instance.device, self.instance.dtype
        meter = meters.METERS[device.type](device)
        return {
            "bandwidth": capability.bandwidth(device) if order["bandwidth"] else [],
            "flops_per_s": capability.matmul_rate(device, dtype) if order["flops"] else None,
            "overhead_ms": meter.overhead_ms() if isinstance(meter, meters.CudaMeter) else 0.0,
        }, {}


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


def set_precision(*, allow_tf32: bool) -> None:
    """The same numerical switches for both sides, whatever the defaults of this torch are."""
    torch.backends.cuda.matmul.allow_tf32 = allow_tf32
    torch.backends.cudnn.allow_tf32 = allow_tf32
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cudnn.benchmark = False
    torch.set_float32_matmul_precision("high" if allow_tf32 else "highest")


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
