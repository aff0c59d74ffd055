"""The orders that time a solution beside the reference."""

from __future__ import annotations

import gc
from typing import Any

import torch

from harness.worker import memory, meters, timing
from harness.worker.session_state import Answer, State


class TimingOrders(State):
    """One method per order, as in `Session`."""

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

    def unseen(self, order: dict[str, Any]) -> Answer:
        """A unit of each side on values that were not met before."""
        assert self.timer is not None
        ms = self.timer.unseen(order["mode"], seeds=order["seeds"], mix_seed=order["mix_seed"])
        return {"ms": ms}, {}

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
        memory.trim_heap()
        return {}, {}
