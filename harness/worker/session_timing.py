"""The orders that time a solution beside the reference."""

from __future__ import annotations

import gc
from typing import Any

import torch

from harness.shared import mixing
from harness.worker import memory, meters, timing
from harness.worker.session_state import Answer, State


class TimingOrders(State):
    """One method per order, as in `Session`."""

    def warm_up(self, order: dict[str, Any]) -> Answer:
        candidate, instance = self._candidate()
        assert self.reference is not None
        kind = instance.device.type
        self.timer = timing.Timer(
            instance=instance,
            reference=self.reference,
            candidate=candidate,
            meter=meters.METERS["wall" if order["wall"] else kind](instance.device),
            mix=order["mix"],
            singly=order["singly"],
        )
        answer = self.timer.warm_up(
            order["mode"], order["seed"], calls=order["calls"], seconds=order["seconds"]
        )
        return answer, {}

    @property
    def _warm(self) -> timing.Timer:
        assert self.timer is not None, "warm_up comes first"
        return self.timer

    def epoch(self, order: dict[str, Any]) -> Answer:
        answer = self._warm.epoch(
            order["mode"],
            seeds=order["seeds"],
            grad_seeds=order["grad_seeds"],
            blocks=order["blocks"],
            order_seed=order["order_seed"],
        )
        return answer, {}

    def reveal(self, order: dict[str, Any]) -> Answer:
        """The output of one timed call that the judge has chosen after the epoch."""
        output = self._warm.kept[order["unit"]][order["call"]]
        return {}, {"output": output}

    def unseen(self, order: dict[str, Any]) -> Answer:
        """A unit of each side on values that were not met before."""
        assert self.timer is not None
        ms = self.timer.unseen(order["mode"], seeds=order["seeds"], mix_seed=order["mix_seed"])
        return {"ms": ms}, {}

    def stopwatch(self, order: dict[str, Any]) -> Answer:
        """Calls that the judge times."""
        self._warm.stopwatch(
            order["mode"],
            mix_seed=order["mix_seed"],
            passes=order["passes"],
            touch=order["touch"],
            seeded=order["seeded"],
        )
        return {}, {}

    def samples(self, order: dict[str, Any]) -> Answer:
        """A sample of what each of them returned."""
        return {}, {"samples": self._warm.samples(order["sample_seed"])}

    def settle(self, order: dict[str, Any]) -> Answer:
        """The values that the judge's clock begins from; with `host`, what the host needs."""
        self._warm.settle(order["mix_seed"])
        if not order["host"]:
            return {}, {}
        host_ms = self._warm.host_ms(order["mode"], touch=order["touch"], seeded=order["seeded"])
        self._warm.settle(order["mix_seed"])
        return {"host_ms": host_ms}, {}

    def forget(self, order: dict[str, Any]) -> Answer:
        """Let go of the inputs and outputs of the last timing, and of what it was helped by."""
        self.timer = None
        mixing.forget()
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        memory.trim_heap()
        return {}, {}
