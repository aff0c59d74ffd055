"""Each rule of the audit: the claim that it must refuse, and the honest one beside it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.judge import audit, device
from harness.judge.audit import Claim, complaint
from harness.judge.device import Device
from harness.judge.timing.baseline import Baseline
from harness.judge.timing.epochs import ESCAPED_FLAG
from harness.records import Block, Epoch, Timing

CPU = device.choose("cpu")
GPU = Device(
    type="cuda",
    index=0,
    name="G",
    visible="0",
    arch="9.0",
    memory_bytes=1 << 36,
    pin_bandwidth_bytes_per_s=1e12,
)


def timing(
    reference_ms: float = 2.0,
    solution_ms: float = 1.0,
    *,
    calls: int = 4,
    wall_s: float = 1.0,
    mode: str = "forward",
    **changes: Any,
) -> Timing:
    block = Block(reference_ms=(reference_ms,) * 2, solution_ms=(solution_ms,) * 2)
    epochs = (Epoch(blocks=(block,) * 3, wall_s=wall_s),) * 2
    return Timing(**({"mode": mode, "calls": calls, "epochs": epochs} | changes))


def known(*times_ms: float, mode: str = "forward") -> Baseline:
    return Baseline(
        timings={(str(i), mode): timing(ms, ms, mode=mode) for i, ms in enumerate(times_ms)}
    )


def claim(of: Timing, base: Baseline | None = None, dev: Device = CPU, proven: int = 0) -> Claim:
    return Claim(timing=of, baseline=base or Baseline(), device=dev, proven_bytes=proven)


def test_an_honest_claim_has_no_complaint() -> None:
    for dev in (CPU, GPU):
        assert complaint(claim(timing(), known(2.0), dev, proven=1000)) is None


# --- the judge's clock --------------------------------------------------------------------------


def test_more_time_than_the_judge_waited_is_refused_with_both_figures() -> None:
    # 3 blocks of (2 + 2 + 1 + 1) ms a call, 4 calls: 72 ms.
    text = complaint(claim(timing(wall_s=0.071)))
    assert text is not None
    assert "forward" in text
    assert "0.0720 s" in text
    assert "0.0710 s" in text
    assert complaint(claim(timing(wall_s=0.073))) is None


def test_disturbed_blocks_took_time_as_well() -> None:
    epoch = timing(wall_s=0.1).epochs[0]
    both = dataclasses.replace(epoch, disturbed=epoch.blocks)
    assert complaint(claim(dataclasses.replace(timing(), epochs=(epoch,)))) is None
    assert complaint(claim(dataclasses.replace(timing(), epochs=(both,)))) is not None


def test_one_epoch_that_does_not_fit_is_enough() -> None:
    epochs = (*timing().epochs, timing(wall_s=0.001).epochs[0])
    assert complaint(claim(dataclasses.replace(timing(), epochs=epochs))) is not None


# --- the reference beside the solution ----------------------------------------------------------


@pytest.mark.parametrize("dev", [CPU, GPU], ids=["cpu", "cuda"])
def test_a_reference_that_is_slower_beside_the_solution_is_refused(dev: Device) -> None:
    share, slack = audit.REFERENCE_SHARE[dev.type], audit.REFERENCE_SLACK_MS[dev.type]
    most = 2.0 * (1 + share) + slack
    assert complaint(claim(timing(0.999 * most), known(2.0), dev)) is None
    text = complaint(claim(timing(1.001 * most), known(2.0), dev))
    assert text is not None
    assert "2 ms alone" in text
    assert ("run it again with --fresh" in text) is (dev is CPU)  # the row would be taken as it is


def test_a_busy_cpu_may_disturb_most_of_the_reference_but_not_a_gpu() -> None:
    quiet, busy = (Block(reference_ms=(ms, ms), solution_ms=(1.0, 1.0)) for ms in (2.0, 6.0))
    disturbed, slowed = (
        timing(minima=True, epochs=(Epoch(blocks=blocks, wall_s=1.0),) * 2)
        for blocks in ((quiet, busy, busy), (busy, busy, busy))
    )
    assert complaint(claim(disturbed, known(2.0), CPU)) is None
    assert complaint(claim(slowed, known(2.0), CPU)) is not None
    on_gpu = dataclasses.replace(disturbed, minima=False)
    assert complaint(claim(on_gpu, known(2.0), GPU)) is not None


def test_the_slowest_of_the_baselines_counts() -> None:
    assert complaint(claim(timing(4.0), known(2.0))) is not None
    assert complaint(claim(timing(4.0), known(2.0, 4.0))) is None


def test_a_mode_without_a_baseline_cannot_be_compared() -> None:
    assert complaint(claim(timing(400.0, wall_s=1e3), known(2.0, mode="backward"))) is None


def test_a_reference_that_is_faster_beside_the_solution_costs_only_the_solution() -> None:
    assert complaint(claim(timing(0.1, 0.05), known(2.0))) is None


@pytest.mark.parametrize("dev", [CPU, GPU], ids=["cpu", "cuda"])
def test_times_of_both_sides_that_are_too_short_are_flagged(dev: Device) -> None:
    # The ratio is right; the share of the limit, worked out of the solution's time, is not.
    flags = [f"forward:{audit.REFERENCE_FASTER}"]
    assert audit.reference_faster(claim(timing(1.0, 0.5), known(2.0), dev)) == flags
    share = audit.REFERENCE_SHARE[dev.type]
    assert audit.reference_faster(claim(timing(2.0 / (1 + share), 1.0), known(2.0), dev)) == []
    assert audit.reference_faster(claim(timing(2.0, 1.0), known(2.0, 9.0), dev)) == []
    assert audit.reference_faster(claim(timing(1.0, 0.5), Baseline(), dev)) == []


# --- the device ---------------------------------------------------------------------------------


def alone(reference_ms: float, wall_ms: float | None = None, *flags: str) -> Baseline:
    found = timing(reference_ms, reference_ms, reference_wall_ms=wall_ms, flags=flags)
    return Baseline(timings={("eager", "forward"): found})


BOUND = ("host_bound",)


@pytest.mark.parametrize(
    ("base", "flags", "allowed_ms"),
    [
        # by events on both sides, whatever launches take
        (alone(9.5, 13.0), (), 9.5 * 1.1),
        # by the wall clock on both sides
        (alone(80.0, 80.0, "host_bound"), BOUND, 80.0 * 1.25),
        # beside the solution alone: launches take longer than the device does
        (alone(9.5, 13.0), BOUND, 13.0 * 1.25),
        # the solution is slow to launch, and the reference never was: its time is the device's
        (alone(9.5, 9.6), BOUND, 9.6 * 1.1),
        (alone(9.5), BOUND, 9.5 * 1.1),
    ],
)
def test_on_a_gpu_the_reference_is_held_against_the_meter_that_it_was_timed_by(
    base: Baseline, flags: tuple[str, ...], allowed_ms: float
) -> None:
    honest, forged = (timing(allowed_ms + ms, 5.0, flags=flags) for ms in (0.004, 0.006))
    assert audit.reference_times(claim(honest, base, GPU)) is None
    text = audit.reference_times(claim(forged, base, GPU))
    assert text is not None
    assert "ms alone" in text


def test_where_the_host_sets_the_pace_a_little_less_is_no_flag() -> None:
    base = alone(80.0, 80.0, "host_bound")
    assert audit.reference_faster(claim(timing(65.0, 60.0, flags=BOUND), base, GPU)) == []
    assert audit.reference_faster(claim(timing(63.0, 60.0, flags=BOUND), base, GPU)) != []


def test_work_after_the_clock_is_refused() -> None:
    assert complaint(claim(timing(flags=(ESCAPED_FLAG,)), known(2.0), GPU)) is not None
    assert complaint(claim(timing(flags=("noisy",)), known(2.0), GPU)) is None


def test_a_sample_faster_than_the_memorys_pins_is_refused() -> None:
    # 1e9 bytes at 1e12 bytes/s: 1 ms, of which 0.95 are asked for.
    text = complaint(claim(timing(2.0, 0.94), known(2.0), GPU, proven=10**9))
    assert text is not None
    assert "1000000000 bytes" in text
    assert complaint(claim(timing(2.0, 0.96), known(2.0), GPU, proven=10**9)) is None


def test_no_floor_is_known_for_a_cpu() -> None:
    assert complaint(claim(timing(2.0, 1e-6), known(2.0), CPU, proven=10**12)) is None


# --- work moved between phases ------------------------------------------------------------------


def modes(train: float, backward: float, both: float) -> dict[str, Timing]:
    return {
        "forward_train": timing(1.0, train, mode="forward_train"),
        "backward": timing(2.0, backward, mode="backward"),
        "forward_backward": timing(3.0, both, mode="forward_backward"),
    }


def test_phases_that_add_up_have_moved_no_work() -> None:
    assert audit.moved_work(modes(0.5, 1.0, 1.5)) == []


def test_a_backward_done_in_forward_is_flagged() -> None:
    assert audit.moved_work(modes(1.4, 0.1, 1.5)) == [audit.WORK_MOVED]


def test_phases_that_do_not_add_up_are_flagged() -> None:
    assert audit.moved_work(modes(0.5, 0.2, 1.5)) == [audit.WORK_MOVED]


def test_phases_that_were_not_all_timed_are_judged_by_those_that_were() -> None:
    def without(mode: str, train_ms: float) -> dict[str, Timing]:
        return {name: t for name, t in modes(train_ms, 0.1, 1.5).items() if name != mode}

    assert audit.moved_work(without("backward", 1.4)) == []
    assert audit.moved_work(without("forward_backward", 1.4)) == [audit.WORK_MOVED]
    assert audit.moved_work(without("forward_backward", 1.0)) == []


# --- the limit ----------------------------------------------------------------------------------


def test_a_time_below_the_limit_is_flagged_but_not_one_within_its_uncertainty() -> None:
    assert audit.beats_limit(timing(solution_ms=0.98), 1.0) == ["forward:beats_limit"]
    assert audit.beats_limit(timing(solution_ms=0.995), 1.0) == []
    assert audit.beats_limit(timing(solution_ms=1.5), 1.0) == []
    assert audit.beats_limit(timing(), 0.0) == []  # unknown


# --- the judge's stopwatch ----------------------------------------------------------------------


def clocked(reference_ms: float, stopwatch_ms: float) -> Baseline:
    """Eager against itself: `reference_ms` as timed, `stopwatch_ms` by the judge's clock."""
    eager = timing(reference_ms, reference_ms, stopwatch_ms=stopwatch_ms)
    return Baseline(timings={("eager", "forward"): eager})


@pytest.mark.parametrize("dev", [CPU, GPU], ids=["cpu", "cuda"])
def test_a_speedup_that_the_judges_clock_does_not_show_is_refused(dev: Device) -> None:
    # A call of the reference: 2 ms, and 0.5 ms for refill and sample.
    base = clocked(2.0, 2.5)
    honest = claim(timing(2.0, 0.5, stopwatch_ms=1.0), base, dev)
    bent = claim(timing(2.0, 0.5, stopwatch_ms=2.5), base, dev)
    assert complaint(honest) is None
    text = complaint(bent)
    assert text is not None
    assert "4x is claimed" in text
    assert "2.5 ms" in text
    assert audit.in_doubt(bent)
    assert not audit.in_doubt(honest)


def test_of_the_readings_of_the_reference_the_newest_counts() -> None:
    early, late = (timing(0.1, 0.1, stopwatch_ms=ms) for ms in (0.18, 0.15))
    found = timing(0.1, 0.02, stopwatch_ms=0.13)
    for readings, refused in (((early,), False), ((early, late), True), ((late, early), False)):
        names = ("eager", "eager again")
        base = Baseline(timings={(n, "forward"): t for n, t in zip(names, readings, strict=False)})
        assert (complaint(claim(found, base)) is not None) is refused
        assert audit.close(claim(found, base))


def test_a_slower_solution_may_take_longer_by_the_judges_clock_too() -> None:
    assert complaint(claim(timing(2.0, 8.0, stopwatch_ms=8.5), clocked(2.0, 2.5))) is None
    assert complaint(claim(timing(2.0, 1.9, stopwatch_ms=8.5), clocked(2.0, 2.5))) is not None


def unsettled(*solution_ms: float) -> Timing:
    """One epoch for each time of the solution, where the reference takes 2 ms."""
    blocks = [Block(reference_ms=(2.0, 2.0), solution_ms=(ms, ms)) for ms in solution_ms]
    epochs = tuple(Epoch(blocks=(block,), wall_s=1.0) for block in blocks)
    return Timing(mode="forward", calls=4, epochs=epochs, stopwatch_ms=3.7)


def test_what_a_claim_is_not_sure_of_is_not_claimed_but_a_wide_interval_hides_nothing() -> None:
    base = clocked(2.0, 2.5)
    near_one = unsettled(1.87, 1.97)
    assert 1.03 < near_one.interval.ratio < 1.05
    assert complaint(claim(near_one, base)) is None
    assert complaint(claim(unsettled(1.919, 1.921), base)) is not None  # surely faster
    wide = unsettled(0.5, 2.0)
    assert wide.interval.low is not None
    assert wide.interval.low < 1 < wide.interval.ratio
    assert complaint(claim(wide, base)) is not None


@pytest.mark.parametrize(
    ("claimed_ms", "shown"),
    [
        ({"reference_wall_ms": 2.2, "solution_wall_ms": 1.1}, 2.0),
        ({"reference_wall_ms": 1e6, "solution_wall_ms": 1.1}, 2.5 / 1.1),
        ({"reference_wall_ms": 2.2, "solution_wall_ms": 1e-6}, 2.2),
        ({"reference_wall_ms": 1e6, "solution_wall_ms": 1e-6}, 2.5),
    ],
)
def test_times_by_the_wall_clock_are_held_to_what_is_known(
    claimed_ms: dict[str, float], shown: float
) -> None:
    eager = timing(2.0, 2.0, reference_wall_ms=2.5, solution_wall_ms=2.5)
    base = Baseline(timings={("eager", "forward"): eager})
    found = audit.with_earned_walls(claim(timing(2.0, 1.0, **claimed_ms), base))
    assert found.wall_speedup == pytest.approx(shown)
    slow = timing(2.0, 2.0, reference_wall_ms=1e6, solution_wall_ms=1e6)
    kept = dataclasses.replace(
        base, timings=base.timings | {("default", "forward"): slow}, kept=frozenset({"default"})
    )  # of an earlier run: no claim is held against that
    assert audit.with_earned_walls(claim(timing(2.0, 1.0, **claimed_ms), kept)) == found
    alone = audit.with_earned_walls(claim(timing(2.0, 1.0, **claimed_ms)))
    assert alone.reference_wall_ms == claimed_ms["reference_wall_ms"]


def test_who_claims_to_be_as_slow_as_the_reference_has_to_be_no_slower() -> None:
    # Four times as slow; a ratio over torch.compile is worked out of such a claim, too.
    bent = timing(2.0, 2.1, stopwatch_ms=8.5)
    assert complaint(claim(bent, clocked(2.0, 2.5), CPU)) is not None
    # On a GPU the host may set the pace of a reading, and not of a unit.
    assert complaint(claim(bent, clocked(2.0, 2.5), GPU)) is None


@pytest.mark.parametrize("dev", [CPU, GPU], ids=["cpu", "cuda"])
def test_a_backward_may_begin_with_a_slow_forward_that_is_known_to_be_slow(dev: Device) -> None:
    def eager(mode: str, stopwatch_ms: float) -> Timing:
        return dataclasses.replace(timing(2.0, 2.0, stopwatch_ms=stopwatch_ms), mode=mode)

    base = Baseline(
        timings={
            ("eager", "forward_train"): eager("forward_train", 2.5),
            ("eager", "backward"): eager("backward", 4.5),
        }
    )
    slow = dataclasses.replace(timing(2.0, 8.0, stopwatch_ms=8.5), mode="forward_train")
    backward = dataclasses.replace(timing(2.0, 1.0, stopwatch_ms=9.5), mode="backward")
    excess_ms = audit.forward_excess_ms({"forward_train": slow, "backward": backward}, base)
    assert excess_ms == pytest.approx(6.0)
    honest = dataclasses.replace(claim(backward, base, dev), forward_excess_ms=excess_ms)
    assert complaint(honest) is None
    assert complaint(dataclasses.replace(honest, forward_excess_ms=0.0)) is not None
    bent = dataclasses.replace(backward, stopwatch_ms=14.5)
    assert complaint(dataclasses.replace(honest, timing=bent)) is not None
    assert audit.forward_excess_ms({"backward": backward}, base) == 0.0


@pytest.mark.parametrize("dev", [CPU, GPU], ids=["cpu", "cuda"])
def test_no_more_is_saved_of_a_reading_than_it_took(dev: Device) -> None:
    # In processor time, or warm caches, a reading may take less than a call took in the epochs.
    base = clocked(2.0, 1.5)
    assert complaint(claim(timing(2.0, 0.1, stopwatch_ms=0.1), base, dev)) is None
    text = complaint(claim(timing(2.0, 0.1, stopwatch_ms=1.5), base, dev))
    assert text is not None
    assert "at most -" not in text
    # Who is slower may take longer by all that a call took.
    assert complaint(claim(timing(2.0, 8.0, stopwatch_ms=7.4), base, dev)) is None


@pytest.mark.parametrize("dev", [CPU, GPU], ids=["cpu", "cuda"])
def test_a_reading_that_is_mostly_not_the_call_still_refutes_what_it_can(dev: Device) -> None:
    # 2 ms of 3.5 are the call: what saves 1.9 of them cannot take 3.5, but 2.2 is within the slack.
    base = clocked(2.0, 3.5)
    assert complaint(claim(timing(2.0, 0.1, stopwatch_ms=3.5), base, dev)) is not None
    assert complaint(claim(timing(2.0, 0.1, stopwatch_ms=2.2), base, dev)) is None
    assert audit.unclocked(claim(timing(2.0, 0.1), base, dev)) == []


def test_a_short_call_on_a_gpu_gets_a_quarter_of_the_references_reading() -> None:
    # 0.2 ms: warm caches, launches and the driver's sampling weigh as much there.
    base = clocked(0.2, 0.25)
    assert complaint(claim(timing(0.2, 0.05, stopwatch_ms=0.16), base, GPU)) is None
    assert complaint(claim(timing(0.2, 0.05, stopwatch_ms=0.17), base, GPU)) is not None


ANY = 1e6  # the largest claim that is tried


@pytest.mark.parametrize(
    ("dev", "truly", "besides_ms", "claimed"),
    [
        *((GPU, 1, 0.0, 1.32), (GPU, 2, 0.0, 2.8), (GPU, 4, 0.0, 6.4)),
        *((GPU, 1, 20.0, 1.94), (GPU, 2, 20.0, 8.6), (GPU, 4, 20.0, ANY)),
        *((CPU, 1, 0.0, 1.4), (CPU, 2, 0.0, 2.8), (CPU, 4, 0.0, 5.6)),
        *((CPU, 1, 20.0, 2.33), (CPU, 2, 20.0, 14.0), (CPU, 4, 20.0, ANY)),
    ],
)
def test_what_may_be_claimed_under_the_judges_clock_is_what_the_document_says(
    dev: Device, truly: float, besides_ms: float, claimed: float
) -> None:
    # docs/integrity.md, "What the clock lets pass": a call of 20 ms, and what else a reading holds.
    base, found = clocked(20.0, 20.0 + besides_ms), 20.0 / truly + besides_ms

    def passes(ratio: float) -> bool:
        return complaint(claim(timing(20.0, 20.0 / ratio, stopwatch_ms=found), base, dev)) is None

    assert passes(0.99 * claimed)
    assert claimed == ANY or not passes(1.01 * claimed)


def test_a_cpu_of_which_others_have_their_part_gets_more_slack() -> None:
    base = clocked(2.0, 2.5)
    honest = timing(2.0, 1.9, stopwatch_ms=3.3)
    assert complaint(claim(honest, base, CPU)) is None
    assert complaint(claim(honest, base, GPU)) is not None


def test_a_call_that_is_lost_in_the_reading_is_said_to_be_unclocked() -> None:
    base = clocked(2.0, 20.0)
    assert complaint(claim(timing(2.0, 0.1, stopwatch_ms=20.0), base)) is None
    assert audit.unclocked(claim(timing(2.0, 0.1), base)) == ["forward:unclocked"]
    backward = dataclasses.replace(timing(2.0, 0.1), mode="backward")
    assert audit.unclocked(claim(backward, base)) == []


def test_on_a_gpu_the_host_may_need_what_it_needs_and_no_claim_is_refused_for_that() -> None:
    def hosted(host_ms: float) -> Baseline:
        eager = timing(0.2, 0.2, stopwatch_ms=0.25, stopwatch_host_ms=host_ms)
        return Baseline(timings={("eager", "forward"): eager})

    # Ten times as fast on the device; the host orders a call in 0.2 ms.
    honest = timing(0.2, 0.02, stopwatch_ms=0.2)
    assert complaint(claim(honest, hosted(0.15), GPU)) is None
    assert complaint(claim(honest, hosted(0.05), GPU)) is not None
    # As slow as the reference: seen only where the device sets the pace.
    bent = timing(0.2, 0.02, stopwatch_ms=0.25)
    assert complaint(claim(bent, hosted(0.1), GPU)) is not None
    assert audit.unclocked(claim(bent, hosted(0.1), GPU)) == []
    assert complaint(claim(bent, hosted(0.2), GPU)) is None
    assert audit.unclocked(claim(bent, hosted(0.2), GPU)) == ["forward:unclocked"]


def test_where_the_host_alone_was_slow_it_counts_how_long_the_device_was_busy() -> None:
    eager = timing(0.2, 0.2, stopwatch_ms=0.25, stopwatch_host_ms=0.05)
    base = Baseline(timings={("eager", "forward"): eager})
    # Ten times as fast on the device, launched from Python in 0.6 ms; and one that is as slow there
    # as the reference, and hides it behind a host that is slow as well.
    honest = timing(0.2, 0.02, stopwatch_ms=0.6, busy_ms=0.06)
    bent = timing(0.2, 0.02, stopwatch_ms=0.6, busy_ms=0.24)
    assert complaint(claim(honest, base, GPU)) is None
    text = complaint(claim(bent, base, GPU))
    assert text is not None
    assert "0.24 ms of it on the device" in text
    assert complaint(claim(dataclasses.replace(honest, busy_ms=None), base, GPU)) is not None


def test_a_host_that_takes_longer_than_any_launch_does_the_work_itself() -> None:
    eager = timing(0.2, 0.2, stopwatch_ms=0.25, stopwatch_host_ms=0.05)
    base = Baseline(timings={("eager", "forward"): eager})
    # Units of 4 calls: 20 ms of the host are 5 for each of them.
    launched = timing(0.2, 0.02, stopwatch_ms=5.0, busy_ms=0.06)
    computed = dataclasses.replace(launched, stopwatch_ms=5.2)
    assert complaint(claim(launched, base, GPU)) is None
    assert complaint(claim(computed, base, GPU)) is not None
    # Who is timed by the wall clock has to be as fast by the judge's.
    by_wall = dataclasses.replace(launched, flags=("host_bound",))
    assert complaint(claim(by_wall, base, GPU)) is not None


def test_who_is_slow_but_for_the_device_is_as_slow_by_the_wall_clock_as_the_judge_saw() -> None:
    walls = {"reference_wall_ms": 0.22, "solution_wall_ms": 0.22}
    eager = timing(0.2, 0.2, stopwatch_ms=0.25, **walls)
    base = Baseline(timings={("eager", "forward"): eager})
    walls["solution_wall_ms"] = 0.03
    hidden = claim(timing(0.2, 0.02, stopwatch_ms=4.03, busy_ms=0.03, **walls), base, GPU)
    assert audit.with_earned_walls(hidden).solution_wall_ms == pytest.approx(4.0)
    assert audit.launch_bound(hidden) == ["forward:launch_bound"]
    said = dataclasses.replace(hidden.timing, solution_wall_ms=9.5)  # more than that is claimed
    assert audit.with_earned_walls(claim(said, base, GPU)).solution_wall_ms == 9.5
    # A backward's reading begins with a forward, which may be slow.
    behind = dataclasses.replace(hidden.timing, mode="backward")
    after = Baseline(timings={("eager", "backward"): eager})
    assert audit.with_earned_walls(claim(behind, after, GPU)).solution_wall_ms == 0.03
    fast = claim(dataclasses.replace(hidden.timing, stopwatch_ms=0.09), base, GPU)
    assert audit.with_earned_walls(fast).solution_wall_ms == 0.03
    assert audit.launch_bound(fast) == []


def test_a_solution_that_the_judge_did_not_time_is_refused_where_the_reference_was() -> None:
    assert complaint(claim(timing(2.0, 1.0), clocked(2.0, 2.5))) is not None


def test_the_most_lenient_of_the_readings_counts() -> None:
    both = clocked(2.0, 2.5).timings | {
        ("eager again", "forward"): timing(4.0, 4.0, stopwatch_ms=5.0)
    }
    claimed = claim(timing(4.0, 1.0, stopwatch_ms=2.5), Baseline(timings=both))
    assert complaint(claimed) is None


def test_without_a_reading_of_the_reference_nothing_is_compared() -> None:
    assert complaint(claim(timing(2.0, 0.1, stopwatch_ms=9.0), known(2.0))) is None


def test_calls_on_new_values_take_no_longer_than_others() -> None:
    kept = timing(4.0, 1.0, unseen_ms=3.9, unseen_reference_ms=4.0)
    for dev in (CPU, GPU):
        text = complaint(claim(kept, known(4.0), dev))
        assert text is not None
        assert "took 1 ms, but 3.9 ms on values of which nothing was met before" in text
        for honest in (timing(4.0, 1.0, unseen_ms=1.2, unseen_reference_ms=4.0), timing(4.0, 1.0)):
            assert complaint(claim(honest, known(4.0), dev)) is None


def test_more_cores_than_both_sides_were_given_are_refused_on_a_cpu() -> None:
    def busy(cores: float, threads: int | None, dev: Device = CPU) -> Claim:
        return dataclasses.replace(claim(timing(cores=cores), dev=dev), threads=threads)

    assert complaint(busy(1.2, 1)) is None
    text = complaint(busy(1.9, 1))
    assert text is not None
    assert "1.9 cores" in text
    assert complaint(busy(1.9, 2)) is None
    assert complaint(busy(1.9, None)) is None
    assert complaint(busy(1.9, 1, GPU)) is None
