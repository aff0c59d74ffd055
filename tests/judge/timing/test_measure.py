"""Epochs are ordered until it is enough; what is answered is read as a claim."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support import QUICK

from harness import nvml
from harness.config import Settings
from harness.judge import device
from harness.judge.device import Device
from harness.judge.process.sandbox import WorkerLied
from harness.judge.process.usage import Usage
from harness.judge.timing import clock, epochs, measure, stopwatch, unseen
from harness.judge.timing.epochs import Plan, plan
from harness.judge.timing.measure import enough, time_mode
from harness.judge.timing.monitor import CONTENDED, POWER_CAPPED, THROTTLED, Monitor
from harness.records import Block, Epoch, Timing
from harness.shared.channel import Message
from harness.shared.draws import Draw
from harness.shared.mixing import Renewal, mixes, touches, whole

SETTINGS = Settings(**(QUICK | {"epochs_min": 3, "epochs_max": 6, "mode_budget_s": 1e4}))
CPU = device.choose("cpu")
GPU = Device(type="cuda", index=0, name="G", visible="0", arch="9.0", memory_bytes=1 << 36)
SIDES = ("reference", "candidate")
EPOCH_ANSWER = ("blocks", "late_ms", "kept", "host_bound")


class Fake:
    """Answers orders as an honest worker would; `bend` may change an answer."""

    sets = passes = readings = 0
    busy_s = 0.0
    newest: str | None = "1"
    most_passes = 1 << 30
    quick = -1
    """Which reading of the judge's clock is answered faster than the others."""

    def __init__(
        self,
        reference_ms: float = 8.0,
        candidate_ms: float = 4.0,
        bend: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda order, answer: answer,
    ) -> None:
        self.ms = {"reference": reference_ms, "candidate": candidate_ms}
        self.bend = bend
        self.orders: list[tuple[str, dict[str, Any]]] = []

    def ask(self, order: str, *, timeout_s: float, **arguments: Any) -> Message:
        self.orders.append((order, arguments))
        if order == "warm_up":
            bound = arguments["wall"]
            answer: dict[str, Any] = {"ms": self.ms, "wall_ms": self.ms, "host_bound": bound}
        elif order == "unseen":
            answer = {"ms": {name: ms * len(arguments["seeds"]) for name, ms in self.ms.items()}}
        elif order == "settle":
            answer = {"host_ms": 0.1} if arguments["host"] else {}
        elif order == "stopwatch":
            self.passes = min(arguments["passes"], self.most_passes)
            time.sleep(0.0 if self.readings == self.quick else 0.005)
            self.readings += 1
            answer = {}
        elif order == "samples":
            samples = {"samples": torch.zeros(self.passes * self.sets, 1)}
            return Message(body={"answer": {}}, trees=self.bend(order, samples))
        else:
            calls = self.sets = len(arguments["grad_seeds"])
            units = {name: [ms * calls] * 2 for name, ms in self.ms.items()}
            blocks = [
                units | {"span_ns": [n, n + 1], "units": [4 * n + 1, 4 * n + 4]}
                for n in range(arguments["blocks"])
            ]
            late = {"reference": 0.015, "candidate": 0.015}
            numbers = [number for block in blocks for number in block["units"]]
            answer = {"blocks": blocks, "late_ms": late, "kept": numbers[-3:], "host_bound": False}
        return Message(body={"answer": self.bend(order, answer)})

    def cpu_s(self) -> float:
        self.busy_s += 10.0
        return self.busy_s

    def usage(self) -> Usage:
        return Usage(threads_ns={1: time.monotonic_ns()}, newest=self.newest)

    def readings_of(self) -> dict[int, dict[str, Any]]:
        """The orders of the judge's clock, by the seed of the places that were named after."""
        clocked = [one for one in self.orders if one[0] in ("stopwatch", "samples")]
        pairs = zip(clocked[::2], clocked[1::2], strict=True)
        assert {(first[0], then[0]) for first, then in pairs} <= {("stopwatch", "samples")}
        return {
            then["sample_seed"]: first
            for (_, first), (_, then) in zip(clocked[::2], clocked[1::2], strict=True)
        }

    def epochs(self) -> list[dict[str, Any]]:
        return [arguments for order, arguments in self.orders if order == "epoch"]


def timing(worker: Fake, dev: Device = CPU, settings: Settings = SETTINGS, **more: Any) -> Timing:
    more = {"renewal": Renewal()} | more
    return time_mode(worker, "forward", device=dev, settings=settings, **more)  # type: ignore[arg-type]


def sample(count: int, spread: float = 0.0) -> Timing:
    ratios = [math.exp(spread * (-1) ** i) for i in range(count)]
    blocks = [Block(reference_ms=(r, r), solution_ms=(1.0, 1.0)) for r in ratios]
    return Timing(mode="forward", calls=1, epochs=tuple(Epoch(blocks=(b,)) for b in blocks))


# --- how much -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cuda", [True, False])
@pytest.mark.parametrize("reference_ms", [1e-4, 0.01, 1.0, 100.0, 1e5])
@pytest.mark.parametrize("candidate_ms", [1e-4, 0.01, 1.0, 100.0, 1e5])
def test_a_plan_is_bounded_whatever_the_times(
    cuda: bool, reference_ms: float, candidate_ms: float
) -> None:
    ms = {"reference": reference_ms, "candidate": candidate_ms}
    steps = plan(ms, cuda=cuda, settings=SETTINGS)
    assert 1 <= steps.sets <= (epochs.MAX_SETS if cuda else epochs.MAX_CPU_SETS)
    least = epochs.MIN_CUDA_BLOCKS if cuda else epochs.MIN_CPU_BLOCKS
    assert least <= steps.blocks <= epochs.MAX_BLOCKS


def test_a_unit_of_fast_calls_is_long_enough_for_the_clock() -> None:
    steps = plan({"reference": 0.01, "candidate": 0.002}, cuda=False, settings=SETTINGS)
    assert steps.sets * 0.002 >= epochs.MIN_CPU_UNIT_MS


def test_a_slow_call_is_a_unit_of_its_own() -> None:
    steps = plan({"reference": 90.0, "candidate": 80.0}, cuda=False, settings=SETTINGS)
    assert steps.sets == 1


@pytest.mark.parametrize(
    ("ms", "cuda", "least"),
    [
        (epochs.LONG_MS, True, epochs.LONG_EPOCHS),
        (0.9 * epochs.LONG_MS, True, 5),
        (epochs.LONG_MS, False, 5),
    ],
)
def test_of_long_calls_on_a_gpu_fewer_epochs_may_be_enough(
    ms: float, cuda: bool, least: int
) -> None:
    settings = dataclasses.replace(SETTINGS, epochs_min=5)
    both = {"reference": 100.0, "candidate": ms}
    assert plan(both, cuda=cuda, settings=settings).epochs_min == least
    two = dataclasses.replace(SETTINGS, epochs_min=2)
    assert plan(both, cuda=cuda, settings=two).epochs_min == 2


# --- when to stop -------------------------------------------------------------------------------

STEPS = Plan(sets=1, blocks=3, epochs_min=3, epochs_max=6, budget_s=10.0)


def test_very_short_calls_are_resolved_to_a_time_not_to_a_share() -> None:
    def spread(of: Timing, factor: float) -> Timing:
        epochs = [
            Epoch(
                blocks=tuple(
                    Block(
                        reference_ms=(factor * b.reference_ms[0],) * 2,
                        solution_ms=(factor * b.solution_ms[0],) * 2,
                    )
                    for b in epoch.blocks
                )
            )
            for epoch in of.epochs
        ]
        return dataclasses.replace(of, epochs=tuple(epochs))

    wide = sample(4, 2 * SETTINGS.half_width)
    assert SETTINGS.half_width < wide.interval.half_width < 5 * SETTINGS.half_width
    assert not enough(wide, STEPS, SETTINGS, spent_s=0.0)
    assert not enough(spread(wide, measure.SHORT_MS), STEPS, SETTINGS, spent_s=0.0)
    assert enough(spread(wide, measure.SHORT_MS / 5), STEPS, SETTINGS, spent_s=0.0)


def test_one_epoch_is_never_enough() -> None:
    assert not enough(sample(1), STEPS, SETTINGS, spent_s=1e9)


def test_time_that_is_spent_ends_it_with_two_epochs() -> None:
    assert enough(sample(2, 0.5), STEPS, SETTINGS, spent_s=11.0)
    assert not enough(sample(2, 0.0), STEPS, SETTINGS, spent_s=9.0)


def test_a_narrow_interval_ends_it_from_the_least_number_of_epochs_on() -> None:
    assert not enough(sample(2), STEPS, SETTINGS, spent_s=0.0)
    assert enough(sample(3), STEPS, SETTINGS, spent_s=0.0)
    assert not enough(sample(4, 0.2), STEPS, SETTINGS, spent_s=0.0)


def test_the_greatest_number_of_epochs_ends_it() -> None:
    assert enough(sample(6, 0.5), STEPS, SETTINGS, spent_s=0.0)


# --- an honest worker ---------------------------------------------------------------------------


def test_times_are_per_call_and_the_ratio_is_the_reference_over_the_solution() -> None:
    for dev in (CPU, GPU):
        worker = Fake(reference_ms=0.08, candidate_ms=0.02)
        found = timing(worker, dev)
        assert found.reference_ms == pytest.approx(0.08)
        assert found.solution_ms == pytest.approx(0.02)
        assert found.interval.ratio == pytest.approx(4.0)
        assert found.wall_speedup == pytest.approx(4.0)
        assert found.minima == (dev is CPU)
        assert len(found.epochs) == SETTINGS.epochs_min
        assert found.flags == ()


def test_seeds_are_fresh_in_every_epoch_and_every_set() -> None:
    worker = Fake(reference_ms=0.05, candidate_ms=0.05)
    timing(worker)
    epochs = worker.epochs()
    seeds = [seed for epoch in epochs for key in ("seeds", "grad_seeds") for seed in epoch[key]]
    seeds += [epoch["order_seed"] for epoch in epochs]
    assert len(set(seeds)) == len(seeds)
    assert len(epochs[0]["seeds"]) > 1


def test_what_an_event_pair_costs_is_taken_off_each_unit_once() -> None:
    found = timing(Fake(reference_ms=1.0, candidate_ms=0.5), GPU, overhead_ms=0.01)
    assert found.calls == 1
    assert found.reference_ms == pytest.approx(0.99)
    assert found.solution_ms == pytest.approx(0.49)
    assert timing(Fake(), CPU).overhead_ms == 0.0


def test_a_side_that_is_mostly_event_pair_is_flagged_and_stays_positive() -> None:
    found = timing(Fake(reference_ms=0.04, candidate_ms=0.031), GPU, overhead_ms=0.032)
    assert found.solution_ms > 0
    assert epochs.BELOW_RESOLUTION in found.flags


@pytest.mark.parametrize("dev", [CPU, GPU])
def test_what_has_just_timed_another_mode_is_warmed_up_for_less(dev: Device) -> None:
    def seconds(**options: Any) -> float:
        worker = Fake()
        timing(worker, dev, **options)
        (one,) = (arguments for order, arguments in worker.orders if order == "warm_up")
        return float(one["seconds"])

    assert seconds() == measure.WARM_S[dev.type]
    assert 0 < seconds(warm=True) < seconds()


def test_a_host_bound_side_is_flagged() -> None:
    bound = Fake(bend=lambda order, a: a | {"host_bound": True} if order == "warm_up" else a)
    assert timing(bound, GPU).flags == (clock.HOST_BOUND,)
    slow = {"reference": 8.0, "candidate": 40.0}
    launch = Fake(bend=lambda order, a: a | {"wall_ms": slow} if order == "warm_up" else a)
    assert timing(launch, GPU).flags == (measure.LAUNCH_BOUND,)
    assert timing(launch, CPU).flags == ()


def test_where_the_reference_alone_is_host_bound_so_are_both_from_the_beginning() -> None:
    worker = Fake()
    assert timing(worker, GPU, host_bound=True, overhead_ms=0.1).flags == (clock.HOST_BOUND,)
    assert timing(worker, GPU, overhead_ms=0.1).flags == ()
    told = [arguments["wall"] for order, arguments in worker.orders if order == "warm_up"]
    assert told == [True, False]


@pytest.mark.parametrize("late", [1, 2])
def test_epochs_before_the_worker_came_to_go_by_the_wall_clock_do_not_count(late: int) -> None:
    seen: list[int] = []

    def bend(order: str, answer: dict[str, Any]) -> dict[str, Any]:
        if order != "epoch":
            return answer
        seen.append(1)
        slower = 1 if len(seen) < late else 2 if len(seen) == late else 3
        blocks = [
            block
            | {name: [slower * ms for ms in block[name]] for name in ("reference", "candidate")}
            for block in answer["blocks"]
        ]
        # A device-wide wait takes longer after a unit by events than after one by the wall clock.
        waits = {"reference": 0.0, "candidate": 9.0 if len(seen) <= late else 0.0}
        return answer | {"blocks": blocks, "host_bound": len(seen) >= late, "late_ms": waits}

    found = timing(Fake(bend=bend), GPU, overhead_ms=0.1)
    assert found.flags == (clock.HOST_BOUND,)
    assert found.overhead_ms == 0.0
    assert {ms for epoch in found.epochs for ms in epoch.reference_ms} == {24.0}
    assert len(found.epochs) == len(seen) - late


def test_work_that_outlives_the_clock_is_flagged_against_the_reference() -> None:
    def late(reference: float, candidate: float) -> Fake:
        waits = {"late_ms": {"reference": reference, "candidate": candidate}}
        return Fake(bend=lambda o, a: a | waits if o == "epoch" else a)

    assert timing(late(0.015, 0.03), GPU).flags == ()
    assert timing(late(0.300, 0.31), GPU).flags == (), "a slow wait is the machine's if both wait"
    assert timing(late(0.015, 0.30), GPU).flags == (epochs.ESCAPED_FLAG,)


def test_disturbed_blocks_are_dropped_while_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    def during(self: Monitor, start_ns: int, end_ns: int) -> frozenset[str]:
        return frozenset({THROTTLED}) if start_ns == 0 else frozenset({POWER_CAPPED})

    monkeypatch.setattr(Monitor, "during", during)
    found = timing(Fake(reference_ms=0.05, candidate_ms=0.05))
    assert found.dropped == len(found.epochs)
    assert set(found.flags) == {THROTTLED, POWER_CAPPED}


def test_no_block_is_dropped_where_most_are_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Monitor, "during", lambda *_: frozenset({CONTENDED}))
    found = timing(Fake())
    assert found.dropped == 0
    assert all(epoch.blocks for epoch in found.epochs)
    assert set(found.flags) == {CONTENDED, epochs.UNSTABLE}


class Eyes:
    """Notes what an examiner is shown."""

    def __init__(self) -> None:
        self.revealed: list[tuple[Any, ...]] = []
        self.sampled_: list[tuple[Any, ...]] = []
        self.first_: list[tuple[Any, ...]] = []

    def first(self, worker: Any, *arguments: Any) -> None:
        self.first_.append(arguments)

    def reveal(self, *arguments: Any) -> None:
        self.revealed.append(arguments)

    def sampled(self, *arguments: Any) -> None:
        self.sampled_.append(arguments)


@pytest.mark.parametrize(("spread", "flags"), [(0.001, ()), (0.3, (epochs.UNSTABLE,))])
def test_samples_that_do_not_settle_in_time_are_called_unstable(
    spread: float, flags: tuple[str, ...]
) -> None:
    epochs = iter(range(100))

    def scattered(order: str, answer: dict[str, Any]) -> dict[str, Any]:
        if order == "epoch":
            factor = math.exp(spread * (-1) ** next(epochs))
            for block in answer["blocks"]:
                block["candidate"] = [ms * factor for ms in block["candidate"]]
        return answer

    assert timing(Fake(bend=scattered)).flags == flags


def test_an_output_of_the_first_epoch_is_always_looked_at() -> None:
    worker, eyes = Fake(reference_ms=0.05, candidate_ms=0.05), Eyes()
    timing(worker, examiner=eyes)
    _, mode, draw, grad_seed, unit, call = eyes.revealed[0]
    first = worker.epochs()[0]
    assert mode == "forward"
    assert grad_seed == first["grad_seeds"][call]
    assert unit in [4 * n + step for n in range(first["blocks"]) for step in (1, 4)][-3:]
    count = len(first["grad_seeds"])
    number, mix = mixes(first["order_seed"] + unit, first["seeds"], count, mix=True)[call]
    assert draw == Draw(seed=first["seeds"][number], mix=mix)


@pytest.mark.parametrize("disturbed", ["first", "last"])
def test_of_the_reference_the_better_of_two_readings_apart_counts(
    monkeypatch: pytest.MonkeyPatch, disturbed: str
) -> None:
    taken: list[float] = []

    def read(*_: Any, **__: Any) -> stopwatch.Reading:
        slow = (not taken) is (disturbed == "first")
        taken.append(9.0 if slow else 1.0)
        return stopwatch.Reading(call_ms=taken[-1], cores=1.0)

    monkeypatch.setattr(stopwatch, "read", read)
    assert timing(Fake()).stopwatch_ms == 1.0
    assert len(taken) == 2
    taken.clear()
    assert timing(Fake(), examiner=Eyes()).stopwatch_ms == taken[0], "a solution has one"
    taken.clear()
    assert timing(Fake(), GPU).stopwatch_ms == taken[0], "nobody else is on the card"
    assert len(taken) == 1


@pytest.mark.parametrize("dev", [CPU, GPU], ids=["cpu", "cuda"])
def test_where_the_fastest_units_count_those_are_looked_at(dev: Device) -> None:
    fast: set[int] = set()
    seen: set[int] = set()

    def uneven(order: str, answer: dict[str, Any]) -> dict[str, Any]:
        if order == "epoch":
            units = [n for block in answer["blocks"] for n in block["units"]]
            fast.update(units[6 : 6 + math.ceil(len(units) / 5)])
            for block in answer["blocks"]:
                block["candidate"] = [0.5 if n in fast else 1.0 for n in block["units"]]
            answer["kept"] = units
        return answer

    for _ in range(20):
        eyes = Eyes()
        timing(Fake(1.0, 1.0, bend=uneven), dev, examiner=eyes)
        seen |= {unit for *_, unit, _ in eyes.revealed}
    assert (seen <= fast) is (dev is CPU)


def test_of_the_readings_of_the_judges_clock_calls_of_the_one_that_counts_are_looked_at() -> None:
    worker, eyes = Fake(reference_ms=0.05, candidate_ms=0.05), Eyes()
    worker.quick = 2
    found = timing(worker, examiner=eyes)
    assert found.stopwatch_ms is not None
    assert 0 < found.stopwatch_ms < 5 / (worker.passes * worker.sets)
    orders = worker.readings_of()
    assert len(orders) == stopwatch.READINGS
    assert len({order["mix_seed"] for order in orders.values()}) == len(orders)
    seeds = {sample_seed for *_, sample_seed, _ in eyes.sampled_}
    assert seeds == {list(orders)[worker.quick]}
    assert len(eyes.sampled_) == stopwatch.EXAMINED
    assert len({str(looked[1]) for looked in eyes.sampled_}) == len(eyes.sampled_)  # other calls


def test_a_reading_of_fewer_calls_than_were_ordered_counts_by_those() -> None:
    # Where outputs are large, the worker keeps fewer of them.
    worker, eyes = Fake(reference_ms=1.0, candidate_ms=1.0), Eyes()
    worker.most_passes = 2
    found = timing(worker, examiner=eyes)
    assert {order["passes"] for order in worker.readings_of().values()} == {40}
    assert found.stopwatch_ms is not None
    assert found.stopwatch_ms >= 5 / (2 * worker.sets)
    assert len(eyes.sampled_) == 2 * worker.sets


def test_every_call_of_a_pass_has_a_sample() -> None:
    def bend(order: str, answer: dict[str, Any]) -> dict[str, Any]:
        return {"samples": answer["samples"][:-1]} if order == "samples" else answer

    worker = Fake(reference_ms=0.05, candidate_ms=0.05, bend=bend)
    with pytest.raises(WorkerLied, match="has a sample"):
        timing(worker)
    assert worker.sets > 1


def test_who_is_not_clocked_is_given_no_such_order() -> None:
    worker = Fake()
    assert timing(worker, clocked=False).stopwatch_ms is None
    assert worker.readings_of() == {}


def test_more_readings_are_taken_where_processor_time_is_known_of_none() -> None:
    worker = Fake(reference_ms=0.05, candidate_ms=0.05)
    worker.newest = None
    timing(worker, examiner=Eyes())
    assert worker.readings == stopwatch.MOST_READINGS
    worker = Fake(reference_ms=0.05, candidate_ms=0.05)
    worker.newest = None
    timing(worker, GPU, examiner=Eyes())
    assert worker.readings == stopwatch.READINGS


@pytest.mark.parametrize(("busy_ns", "counts"), [(1, True), (10**12, False), (None, False)])
def test_processor_time_counts_where_it_is_less_and_known(
    busy_ns: int | None, counts: bool
) -> None:
    worker = Fake(reference_ms=0.05, candidate_ms=0.05)
    looks = itertools.count()

    def usage() -> Usage:
        thread = next(looks) if busy_ns is None else 1  # another thread each time, or the same
        return Usage(threads_ns={thread: next(looks) * (busy_ns or 1)}, newest="1")

    worker.usage = usage  # type: ignore[method-assign]
    found = timing(worker, examiner=Eyes())
    assert found.stopwatch_ms is not None
    assert (found.stopwatch_ms < 1e-3) is counts


def test_what_the_judges_clock_times_is_renewed_in_part_and_the_judge_knows_how() -> None:
    worker, eyes = Fake(reference_ms=0.05, candidate_ms=0.05), Eyes()
    timing(worker, examiner=eyes, renewal=Renewal(touch=True))
    seeds = worker.epochs()[-1]["seeds"]
    (settled,) = (arguments for order, arguments in worker.orders if order == "settle")
    orders = worker.readings_of()
    base = mixes(settled["mix_seed"] + 1, seeds, worker.sets, mix=True)
    assert all(order["touch"] is True for order in orders.values())
    for _, draw, _, sample_seed, _ in eyes.sampled_:
        order = orders[sample_seed]
        units = range(1, order["passes"] + 1)
        known = [touches(order["mix_seed"] + unit, base, seeds) for unit in units]
        assert draw in [Draw(seed=seeds[n], mix=mix) for chosen in known for n, mix in chosen]


@pytest.mark.parametrize(("examiner", "asked"), [(None, True), (Eyes(), False)])
def test_what_the_host_needs_is_asked_only_where_no_solution_is_loaded(
    examiner: Any, asked: bool
) -> None:
    worker = Fake()
    found = timing(worker, GPU, examiner=examiner)
    (settled,) = (arguments for order, arguments in worker.orders if order == "settle")
    assert settled["host"] is asked
    assert found.stopwatch_host_ms == (0.1 if asked else None)


class Driver:
    """NVML of a card that is busy for a part of the time, or that does not tell: a sample every
    ten milliseconds."""

    NVML_GPU_UTILIZATION_SAMPLES = 1

    class NVMLError(Exception):
        pass

    def __init__(self, percent: int | None) -> None:
        self.percent = percent

    def nvmlDeviceGetSamples(self, handle: str, kind: int, last_us: int) -> tuple[int, list[Any]]:
        now_us = time.monotonic_ns() // 10_000_000 * 10_000
        if self.percent is None or now_us <= last_us:
            raise self.NVMLError
        value = SimpleNamespace(uiVal=self.percent)
        return 1, [SimpleNamespace(timeStamp=now_us, sampleValue=value)]


def on_card(monkeypatch: pytest.MonkeyPatch, card: tuple[Driver, str] | None) -> None:
    monkeypatch.setattr(stopwatch, "BUSY_S", 10.0 if card and card[0].percent is not None else 0.1)
    monkeypatch.setattr(nvml, "card", lambda uuid: contextlib.nullcontext(card))


@pytest.mark.parametrize("percent", [100, 0])
def test_the_device_is_asked_where_the_clock_speaks_against_a_claim(
    monkeypatch: pytest.MonkeyPatch, percent: int
) -> None:
    on_card(monkeypatch, (Driver(percent), "card"))
    worker, eyes = Fake(reference_ms=0.05, candidate_ms=0.05), Eyes()
    found = timing(worker, GPU, examiner=eyes, asks=lambda timing: True)
    assert found.stopwatch_ms is not None
    assert found.busy_ms is not None
    each_ms = 5 / (worker.passes * worker.sets)  # the worker sleeps for so long, at least
    # A share is told in steps: of a solution the end counts that is in nobody's interest.
    assert found.busy_ms >= each_ms * (percent / 100 + stopwatch.BUSY_STEP)
    assert percent or found.busy_ms < found.stopwatch_ms
    # Calls of those readings are looked at too: who leaves them out is idle, and wrong.
    later = set(list(worker.readings_of())[stopwatch.READINGS :])
    looked = {sample_seed for *_, sample_seed, _ in eyes.sampled_}
    assert len(looked & later) == stopwatch.BUSY_EXAMINED


def test_of_the_reference_the_least_counts_that_the_device_was_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_card(monkeypatch, (Driver(0), "card"))
    assert timing(Fake(), GPU, asks=lambda timing: True).busy_ms == 0.0


@pytest.mark.parametrize("card", [None, (Driver(None), "card")], ids=["no driver", "not told"])
def test_where_the_driver_tells_nothing_the_clock_stands(
    monkeypatch: pytest.MonkeyPatch, card: tuple[Driver, str] | None
) -> None:
    on_card(monkeypatch, card)
    found = timing(Fake(), GPU, examiner=Eyes(), asks=lambda timing: True)
    assert found.busy_ms is None
    assert found.stopwatch_ms is not None


def test_the_device_is_not_asked_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    on_card(monkeypatch, (Driver(50), "card"))
    seen: list[float | None] = []

    def asks(of: Timing) -> bool:
        seen.append(of.stopwatch_ms)
        return False

    found = timing(Fake(), GPU, examiner=Eyes(), asks=asks)
    assert found.busy_ms is None
    assert seen == [found.stopwatch_ms]
    assert timing(Fake(), CPU, examiner=Eyes(), asks=lambda timing: True).busy_ms is None


def test_without_mixing_no_draw_is_mixed() -> None:
    worker, eyes = Fake(), Eyes()
    timing(worker, examiner=eyes, renewal=Renewal(mix=False))
    assert all(draw.mix.begin == draw.mix.end for _, _, draw, *_ in eyes.revealed)
    assert worker.orders[0][1]["mix"] is False


# --- values of which nothing was met ------------------------------------------------------------


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between units on new values."""
    monkeypatch.setattr(unseen, "PAUSE_S", {"cpu": 0.0, "cuda": 0.0})


def unseen_of(worker: Fake) -> list[dict[str, Any]]:
    return [arguments for order, arguments in worker.orders if order == "unseen"]


def slower_at_first(times: int, factor: float = 4.0) -> Callable[[str, dict[str, Any]], Any]:
    """The candidate is, in its first `times` units on values that it has not met."""
    count = itertools.count()

    def bend(order: str, answer: dict[str, Any]) -> dict[str, Any]:
        if order == "unseen" and next(count) < times:
            answer["ms"]["candidate"] *= factor
        return answer

    return bend


def test_the_last_call_that_is_looked_at_is_one_on_values_of_its_own() -> None:
    worker, eyes = Fake(), Eyes()
    found = timing(worker, examiner=eyes)
    assert (found.unseen_ms, found.unseen_reference_ms) == (4.0, 8.0)
    (order,) = unseen_of(worker)
    assert not {*order["seeds"]} & {seed for e in worker.epochs() for seed in e["seeds"]}
    ((mode, draw, grad_seed, call),) = eyes.first_
    assert (mode, draw.seed) == ("forward", order["seeds"][call])
    assert draw.mix == whole(order["mix_seed"], order["seeds"], mix=True)[call][1]
    assert draw.mix.begin == draw.mix.end
    assert grad_seed == worker.epochs()[-1]["grad_seeds"][call]


def test_of_a_unit_of_several_calls_some_are_looked_at() -> None:
    eyes = Eyes()
    timing(Fake(0.3, 0.125), examiner=eyes)
    assert len({call for *_, call in eyes.first_}) == len(eyes.first_) == unseen.EXAMINED


@pytest.mark.parametrize(("times", "honest"), [(3, True), (1 << 10, False)])
def test_the_fastest_of_some_units_on_new_values_counts(times: int, honest: bool) -> None:
    worker, eyes = Fake(bend=slower_at_first(times)), Eyes()
    found = timing(worker, examiner=eyes)
    assert unseen.slower(found, "cpu") is not honest
    assert len(unseen_of(worker)) == (times + 1 if honest else unseen.TRIES["cpu"])
    assert len(eyes.first_) == honest, "what is too slow gets no credit, whatever it returned"


@pytest.mark.parametrize(
    ("renewal", "calls"),
    [
        (Renewal(), {0, 1, 2, 3}),
        (Renewal(mutates=True), {0, 1, 2, 3}),
        (Renewal(seeded=True), {0}),
        (Renewal(restored=True), {0}),
    ],
)
def test_of_what_draws_or_goes_by_buffers_the_first_call_is_looked_at(
    renewal: Renewal, calls: set[int]
) -> None:
    seen = set()
    for _ in range(40):
        eyes = Eyes()
        timing(Fake(0.3, 0.125), examiner=eyes, renewal=renewal)
        seen |= {call for *_, call in eyes.first_}
    assert seen == calls


@pytest.mark.parametrize(("factor", "slower"), [(2.2, False), (5.0, True)])
def test_where_the_reference_is_slower_too_nothing_was_kept_within_bounds(
    factor: float, slower: bool
) -> None:
    def bend(order: str, answer: dict[str, Any]) -> dict[str, Any]:
        if order == "unseen":
            answer["ms"] = {name: factor * ms for name, ms in answer["ms"].items()}
        return answer

    worker = Fake(bend=bend)
    assert unseen.slower(timing(worker, examiner=Eyes()), "cpu") is slower
    assert len(unseen_of(worker)) == (unseen.TRIES["cpu"] if slower else 1)


def test_who_is_no_faster_has_kept_nothing_that_counts() -> None:
    worker = Fake(reference_ms=4.0, candidate_ms=4.0)
    assert timing(worker, examiner=Eyes()).unseen_ms is None
    assert unseen_of(worker) == []
    worker = Fake()
    assert timing(worker).unseen_ms is None, "where no solution is loaded"


def test_a_unit_that_has_to_be_done_again_is_done_on_other_values() -> None:
    count = itertools.count()

    def opened(order: str, answer: dict[str, Any]) -> dict[str, Any]:
        return {"ms": {}} if order == "unseen" and next(count) < 2 else answer

    worker = Fake(bend=opened)
    assert timing(worker, GPU, examiner=Eyes()).unseen_ms == 4.0
    assert len({seed for order in unseen_of(worker) for seed in order["seeds"]}) == 3
    never = Fake(bend=lambda order, answer: {"ms": {}} if order == "unseen" else answer)
    with pytest.raises(WorkerLied, match="had not met"):
        timing(never, GPU, examiner=Eyes())


# --- a lying one --------------------------------------------------------------------------------


def drop(key: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda answer: {k: v for k, v in answer.items() if k != key}


def put(key: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda answer: answer | {key: value}


def put_block(key: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda answer: answer | {"blocks": [b | {key: value} for b in answer["blocks"]]}


NO_TIMES = (0.0, -1.0, math.nan, math.inf, "1", None, True, [1.0], 5e-324, 1e308, 10**400)
LIES = {
    **{f"warm_up without {key}": ("warm_up", drop(key)) for key in ("ms", "wall_ms", "host_bound")},
    **{
        f"warm_up of {ms!r}": ("warm_up", put("ms", {"reference": 1.0, "candidate": ms}))
        for ms in NO_TIMES
    },
    "warm_up of one side": ("warm_up", put("ms", {"reference": 1.0})),
    "warm_up of a number": ("warm_up", put("ms", 1.0)),
    **{
        f"epoch without {k}": ("epoch", drop(k))
        for k in ("blocks", "late_ms", "kept", "host_bound")
    },
    "unseen without times": ("unseen", drop("ms")),
    "unseen of one side": ("unseen", put("ms", {"reference": 1.0})),
    **{
        f"unseen of {ms!r}": ("unseen", put("ms", {"reference": 1.0, "candidate": ms}))
        for ms in NO_TIMES
    },
    "blocks without numbers": ("epoch", put_block("units", None)),
    "too few blocks": ("epoch", lambda answer: answer | {"blocks": answer["blocks"][:-1]}),
    "too many blocks": ("epoch", lambda answer: answer | {"blocks": answer["blocks"] * 2}),
    "blocks of another type": ("epoch", put("blocks", 3)),
    "blocks that are none": ("epoch", lambda a: a | {"blocks": [1] * len(a["blocks"])}),
    **{f"a unit of {ms!r}": ("epoch", put_block("candidate", [1.0, ms])) for ms in NO_TIMES},
    "one unit": ("epoch", put_block("reference", [1.0])),
    "three units": ("epoch", put_block("candidate", [1.0] * 3)),
    "no units": ("epoch", put_block("candidate", None)),
    "no span": ("epoch", put_block("span_ns", None)),
    "half a span": ("epoch", put_block("span_ns", [1])),
    "a span of words": ("epoch", put_block("span_ns", ["a", "b"])),
    "a span without end": ("epoch", put_block("span_ns", [1, math.inf])),
    "late for ever": ("epoch", put("late_ms", {"reference": 0.0, "candidate": 10**400})),
    "kept without end": ("epoch", put("kept", [math.inf])),
    "escapes of another type": ("epoch", put("late_ms", "none")),
    "lateness of one side": ("epoch", put("late_ms", {"reference": 0.0})),
    "nothing kept": ("epoch", put("kept", [])),
    "no list of what is kept": ("epoch", put("kept", 5)),
    "kept but for some": ("epoch", lambda a: a | {"kept": [a["kept"][0], a["kept"][-1]]}),
    "kept but for the last": ("epoch", lambda a: a | {"kept": a["kept"][:-1]}),
    "kept of no unit": ("epoch", put("kept", [10**9])),
    "units of another type": ("epoch", put_block("units", [None, 1])),
    "one unit's number": ("epoch", put_block("units", [1])),
    "samples of no call": ("samples", lambda trees: {"samples": trees["samples"][:0]}),
    "too many samples": ("samples", lambda trees: {"samples": trees["samples"].repeat(2, 1)}),
    "no samples": ("samples", lambda trees: {}),
    "samples that are none": ("samples", lambda trees: {"samples": 5}),
    "samples of too few calls": ("samples", lambda trees: {"samples": [torch.zeros(2000, 1)]}),
    "kept of another type": ("epoch", put("kept", "all")),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_cannot_be_a_measurement_is_a_lie(lie: str) -> None:
    order, change = LIES[lie]
    worker = Fake(bend=lambda given, answer: change(answer) if given == order else answer)
    with pytest.raises(WorkerLied):
        timing(worker, GPU, examiner=Eyes())
