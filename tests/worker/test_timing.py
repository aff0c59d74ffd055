"""Epochs on a CPU: which side runs when, on which inputs, and what is kept. No time is asserted."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from harness.shared.draws import GradDraw, grad_outputs
from harness.shared.mixing import mixes, sample, touches, whole
from harness.shared.problem import Draw, Instance
from harness.shared.trees import bytes_of
from harness.worker import meters, pool, readings, timing
from harness.worker.calls import CallSet, Side, call_set
from harness.worker.faults import ContractFault
from harness.worker.meters import GateOpened, HostBound, Unit
from harness.worker.timing import Timer

CPU = torch.device("cpu")

SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x


def get_inputs():
    return [torch.randn(4, 8)]
"""


class Counted(torch.nn.Module):
    """The model of `SOURCE`; notes the side and the input's values of each call."""

    def __init__(self, name: str, log: list[tuple[str, float]]) -> None:
        super().__init__()
        self.name = name
        self.log = log

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.log.append((self.name, float(x.detach()[0, 0])))
        return 2 * x


class Steady:
    """A meter by which the reference takes 4 ms and the candidate 2 ms a call."""

    def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
        prepared = [side.prepare(mode, s) for s in sets]
        outputs = [side.run(mode, s, p) for s, p in zip(sets, prepared, strict=True)]
        ms = {"reference": 4.0, "candidate": 2.0}[side.name]
        return Unit(ms=ms * len(sets), outputs=outputs)


def instance() -> Instance:
    return Instance(source=SOURCE, path="p.py", size="full", dtype=torch.float32, device=CPU)


def timer(log: list[tuple[str, float]], meter: Any = None) -> Timer:
    return Timer(
        instance=instance(),
        reference=Side("reference", Counted("reference", log)),
        candidate=Side("candidate", Counted("candidate", log)),
        meter=meter or Steady(),
    )


def epoch(of: Timer, mode: str = "forward", **changes: Any) -> dict[str, Any]:
    order: dict[str, Any] = {"seeds": [1, 2, 3, 9], "grad_seeds": [4, 5, 6], "blocks": 3}
    return of.epoch(mode, **({"order_seed": 7} | order | changes))


def drawn(number: int, seeds: list[int], count: int, order_seed: int = 7) -> list[Draw]:
    """The draws of a unit's calls, as the judge works them out."""
    chosen = mixes(order_seed + number, seeds, count, mix=True)
    return [Draw(seed=seeds[first], mix=mix) for first, mix in chosen]


def test_an_epoch_answers_two_units_of_each_side_a_block() -> None:
    answer = epoch(timer([]))
    assert len(answer["blocks"]) == 3
    for block in answer["blocks"]:
        assert block["reference"] == [12.0, 12.0]  # of 3 sets
        assert block["candidate"] == [6.0, 6.0]
        start, end = block["span_ns"]
        assert start <= end
    units = [unit for block in answer["blocks"] for unit in block["units"]]
    assert len(set(units)) == 6
    assert units == sorted(units) == answer["kept"], "all of them, while outputs are small"


def test_a_block_is_a_b_b_a_or_b_a_a_b_and_both_occur() -> None:
    log: list[tuple[str, float]] = []
    of = timer(log)
    orders = set()
    for seed in range(6):
        log.clear()
        epoch(of, order_seed=seed, seeds=[1, 3], grad_seeds=[2])
        # After one call of each side on the new inputs, and one that is thrown away.
        thrown, calls = [name for name, _ in log[2:4]], [name for name, _ in log[4:]]
        assert sorted(thrown) == ["candidate", "reference"]
        blocks = [tuple(calls[i : i + 4]) for i in range(0, len(calls), 4)]
        assert len(blocks) == 3
        assert all(b[0] == b[3] != b[1] == b[2] for b in blocks)
        orders |= {b[0] for b in blocks}
    assert orders == {"reference", "candidate"}


def test_every_unit_gets_values_that_follow_from_the_seeds_and_that_no_call_has_seen() -> None:
    seen: list[tuple[int, int, torch.Tensor]] = []

    class Watching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((x.data_ptr(), x._version, x.detach().clone()))
            return 2 * x

    of = timer([])
    of.candidate = Side("candidate", Watching())
    epoch(of, seeds=[11, 12, 13], grad_seeds=[1, 2])
    seen = seen[2:]  # one call on each set before the first block
    assert len({pointer for pointer, _, _ in seen}) == 2, "the same memory all along"
    assert len({version for _, version, _ in seen}) == 1, "and nothing that tells of a change"
    values = [value for _, _, value in seen]
    assert not any(torch.equal(a, b) for i, a in enumerate(values) for b in values[:i])
    wanted = [
        instance().inputs(draw)[0]
        for number in range(1, 17)
        for draw in drawn(number, [11, 12, 13], 2)
    ]
    assert all(any(torch.equal(value, one) for one in wanted) for value in values)


def test_without_mixing_the_values_of_a_set_are_those_of_one_draw() -> None:
    of = timer([])
    of.mix = False
    log: list[tuple[str, float]] = []
    of.candidate = Side("candidate", Counted("candidate", log))
    epoch(of, seeds=[11, 12, 13], grad_seeds=[1, 2])
    wanted = {float(instance().inputs(Draw(seed=s))[0][0, 0]) for s in (11, 12, 13)}
    assert {value for _, value in log} <= wanted


def test_values_too_large_to_keep_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    logs: list[list[tuple[str, float]]] = [[], []]
    for log, share in zip(logs, (pool.POOL_SHARE, 0.0), strict=True):
        monkeypatch.setattr(pool, "POOL_SHARE", share)
        epoch(timer(log))
    assert logs[0] == logs[1]


def test_an_epoch_never_reuses_the_inputs_of_the_one_before() -> None:
    log: list[tuple[str, float]] = []
    of = timer(log)
    epoch(of, seeds=[1, 2, 3], grad_seeds=[1, 2])
    first = {value for _, value in log}
    log.clear()
    epoch(of, seeds=[4, 5, 6], grad_seeds=[1, 2])
    assert not first & {value for _, value in log}


@pytest.mark.parametrize("mode", ["forward", "forward_train", "backward", "forward_backward"])
def test_what_is_kept_is_what_timed_calls_of_the_candidate_returned(mode: str) -> None:
    of = timer([])
    answer = epoch(of, mode, seeds=[8, 9, 7], grad_seeds=[3, 4])
    assert answer["kept"] == list(of.kept)
    assert len(of.kept) == 2 * 3
    for number, unit in of.kept.items():
        assert len(unit) == 2
        draws = drawn(number, [8, 9, 7], 2)
        for draw, grad_seed, kept in zip(draws, (3, 4), unit, strict=True):
            calls = call_set(instance(), draw, grad=True, grad_seed=grad_seed)
            output, grads = Side("x", Counted("x", [])).run("forward_backward", calls, None)
            if mode in ("forward", "forward_train"):
                assert torch.equal(kept, output.detach())
            elif mode == "backward":
                assert torch.equal(kept["x"], grads["x"])
            else:
                assert torch.equal(kept[0], output.detach())
                assert torch.equal(kept[1]["x"], grads["x"])


def test_large_outputs_are_kept_of_the_last_unit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "KEEP_BYTES", 3 * 4 * 8 * 4)  # one unit of three outputs
    of = timer([])
    (kept,) = epoch(of)["kept"]
    assert len(of.kept[kept]) == 3


def test_an_output_that_is_a_view_of_an_input_keeps_its_values() -> None:
    class View(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(-1)

    of = timer([])
    of.candidate = Side("candidate", View())
    epoch(of)
    for number, unit in of.kept.items():
        for draw, kept in zip(drawn(number, [1, 2, 3, 9], 3), unit, strict=True):
            assert torch.equal(kept, instance().inputs(draw)[0].view(-1))


def test_no_row_of_an_input_comes_again_in_an_epoch() -> None:
    class Looking(Steady):
        rows: list[tuple[float, ...]] = []  # noqa: RUF012 - of the one made here

        def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
            for calls in sets:
                self.rows += [tuple(row) for row in calls.inputs[0].tolist()]
            return super().unit(side, mode, sets)

    meter = Looking()
    epoch(timer([], meter), seeds=[1, 2, 3], grad_seeds=[4, 5])
    assert len(meter.rows) > 100
    assert len(set(meter.rows)) == len(meter.rows)


@pytest.mark.parametrize("mode", ["forward", "forward_backward"])
def test_a_stopwatch_samples_every_call_on_values_of_the_judges(mode: str) -> None:
    of = timer([])
    epoch(of, mode, seeds=[8, 9, 7], grad_seeds=[3, 4])
    of.stopwatch(mode, mix_seed=70, passes=2, touch=False, seeded=False)
    samples = of.samples(5)
    outputs = samples if mode == "forward" else samples[0]
    draws = [draw for number in (1, 2) for draw in drawn(number, [8, 9, 7], 2, 70)]
    assert len(outputs) == 4
    for draw, got in zip(draws, outputs, strict=True):
        assert torch.equal(got, sample(2 * instance().inputs(draw)[0], 5))


def test_the_last_unit_is_on_whole_draws_and_what_it_returned_is_kept_as_it_was_then() -> None:
    seen: list[torch.Tensor] = []
    returned: list[torch.Tensor] = []

    class Late(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x.clone())
            returned.append(2 * x)
            return returned[-1]

    class Finishing(Steady):
        """Someone goes on with the outputs when the clock has stopped."""

        def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
            for output in returned if side.name == "reference" else ():
                output.zero_()
            return super().unit(side, mode, sets)

    of = timer([], Finishing())
    epoch(of)
    of.candidate.model = Late()
    addresses = [calls.inputs[0].data_ptr() for calls in of.sets]
    assert of.unseen("forward", seeds=[11, 12, 13], mix_seed=5) == {
        "candidate": 6.0,
        "reference": 12.0,
    }
    assert [calls.inputs[0].data_ptr() for calls in of.sets] == addresses
    assert len(seen) == 3, "no call before: it could look at what was drawn"
    for seed, x, kept, (_, mix) in zip(
        (11, 12, 13), seen, of.kept[0], whole(5, [11, 12, 13], mix=True), strict=True
    ):
        assert torch.equal(x, of.instance.inputs(Draw(seed=seed, mix=mix))[0])
        assert torch.equal(kept, 2 * x)


def test_a_call_gets_the_numbers_of_the_draw_that_its_tensors_are_of() -> None:
    source = SOURCE.replace("(self, x)", "(self, x, options, eps)").replace(
        "[torch.randn(4, 8)]", "[torch.randn(4, 8), {'scale': torch.rand(()).item()}, 1e-5]"
    )
    seen: list[tuple[torch.Tensor, dict[str, float], float]] = []

    class Noting(torch.nn.Module):
        def forward(self, x: torch.Tensor, options: dict[str, float], eps: float) -> torch.Tensor:
            seen.append((x.clone(), options, eps))
            return 2 * x

    problem = Instance(source=source, path="p.py", size="full", dtype=torch.float32, device=CPU)
    sides = [Side(name, Noting()) for name in ("reference", "candidate")]
    of = Timer(instance=problem, reference=sides[0], candidate=sides[1], meter=Steady())
    epoch(of)
    seen.clear()
    of.refresh()
    number = of.number
    Steady().unit(of.candidate, "forward", of.sets)
    of.unseen("forward", seeds=[11, 12, 13], mix_seed=5)
    fresh = [
        Draw(seed=seed, mix=mix)
        for seed, (_, mix) in zip((11, 12, 13), whole(5, [11, 12, 13], mix=True), strict=True)
    ]
    for draw, (x, *numbers) in zip([*drawn(number, [1, 2, 3, 9], 3), *fresh], seen, strict=False):
        wanted, *others = problem.inputs(draw)
        assert torch.equal(x, wanted)
        assert numbers == others


@pytest.mark.parametrize("graph", [True, False])
def test_a_forward_in_training_on_new_values_is_followed_by_a_backward(graph: bool) -> None:
    class Doubling(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor(2.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.set_grad_enabled(graph):
                return self.factor * x

    of = timer([])
    epoch(of, "forward_train")
    of.candidate = Side("candidate", Doubling())
    of.unseen("forward_train", seeds=[11, 12, 13], mix_seed=5)
    drawn = whole(5, [11, 12, 13], mix=True)
    for seed, grad_seed, (_, mix), (output, grads) in zip(
        (11, 12, 13), (4, 5, 6), drawn, of.kept[0], strict=True
    ):
        x = of.instance.inputs(Draw(seed=seed, mix=mix))[0]
        assert torch.equal(output, 2 * x)
        given = GradDraw(seed=grad_seed ^ mix.grads)
        wanted = grad_outputs({"output": output}, given, torch.float32)["output"]
        assert list(grads) == (["x", "factor"] if graph else [])
        assert not graph or torch.equal(grads["x"], 2 * wanted)


def test_the_first_call_on_new_values_draws_by_its_seed_and_shows_what_it_did_to_its_inputs() -> (
    None
):
    class Dropping(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(torch.rand_like(x)) + 0

    of = timer([])
    epoch(of)
    of.candidate = Side("candidate", Dropping(), mutates=True)
    of.unseen("forward", seeds=[11, 12, 13], mix_seed=5)
    output, (after,) = of.kept[0][0]
    _, mix = whole(5, [11, 12, 13], mix=True)[0]
    drawn = of.instance.inputs(Draw(seed=11, mix=mix))[0]
    torch.manual_seed(11)
    assert torch.equal(output, drawn * torch.rand_like(drawn))
    assert torch.equal(after, output)


@pytest.mark.parametrize("error", [GateOpened, HostBound])
def test_a_unit_that_the_meter_wants_again_would_not_be_the_first(error: type[Exception]) -> None:
    class Opening(Steady):
        opens = False

        def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
            if self.opens:
                raise error("again")
            return super().unit(side, mode, sets)

    of = timer([], meter := Opening())
    epoch(of)
    meter.opens = True
    assert of.unseen("forward", seeds=[11, 12, 13], mix_seed=5) == {}


def test_what_is_renewed_in_part_is_what_the_judge_works_out() -> None:
    of = timer([])
    seeds = [8, 9, 7]
    epoch(of, seeds=seeds, grad_seeds=[3, 4])
    pointers = [calls.inputs[0].data_ptr() for calls in of.sets]
    of.settle(50)
    settled = mixes(51, seeds, 2, mix=True)
    of.stopwatch("forward", mix_seed=70, passes=3, touch=True, seeded=False)
    samples = of.samples(5)
    chosen = [one for number in (1, 2, 3) for one in touches(70 + number, settled, seeds)]
    for (first, mix), got in zip(chosen, samples, strict=True):
        inputs = instance().inputs(Draw(seed=seeds[first], mix=mix))
        assert torch.equal(got, sample(2 * inputs[0], 5))
    assert len({tuple(row.tolist()) for row in samples}) == 6
    assert [calls.inputs[0].data_ptr() for calls in of.sets] == pointers
    assert of.host_ms("forward", touch=True, seeded=False) > 0


def test_calls_that_draw_random_numbers_begin_from_the_seed_of_their_first_draw() -> None:
    class Drawing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.rand(4)

    of, seeds = timer([]), [8, 9, 7]
    of.candidate = Side("candidate", Drawing())
    epoch(of, seeds=seeds, grad_seeds=[3, 4])
    of.stopwatch("forward", mix_seed=70, passes=2, touch=False, seeded=True)
    firsts = [first for number in (71, 72) for first, _ in mixes(number, seeds, 2, mix=True)]
    for first, got in zip(firsts, of.returned, strict=True):
        torch.manual_seed(seeds[first])
        assert torch.equal(got, torch.rand(4))


def test_on_a_cpu_both_sides_let_go_of_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit after one whose outputs are let go of gets memory that is in the caches."""
    of = timer([])
    epoch(of, seeds=[8, 9, 7], grad_seeds=[3, 4])
    assert len(of.likewise) == len(of.kept) > 2
    assert not set(of.likewise) & set(of.kept)
    monkeypatch.setattr(timing, "KEEP_BYTES", 0)  # large: one unit's, for the judge to look at
    epoch(of, seeds=[8, 9, 7], grad_seeds=[3, 4])
    assert (len(of.kept), len(of.likewise)) == (1, 0)


def test_of_large_outputs_a_reading_keeps_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    of = timer([])
    epoch(of, seeds=[8, 9, 7], grad_seeds=[3, 4])
    of.stopwatch("forward", mix_seed=70, passes=5, touch=False)
    each = bytes_of(of.returned) // 5
    assert len(of.samples(5)) == 10
    assert of.returned == []
    for room, passes in ((0, 1), (2 * each, 2), (3 * each + 1, 3)):
        monkeypatch.setattr(readings, "room_bytes", lambda device, room=room: room)
        of.stopwatch("forward", mix_seed=70, passes=5, touch=False)
        assert len(of.returned) == 2 * passes


def test_of_calls_that_last_a_reading_makes_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    of = timer([])
    epoch(of, seeds=[8, 9, 7], grad_seeds=[3, 4])
    monkeypatch.setattr(readings, "STOPWATCH_S", 0.0)  # which one pass exceeds
    of.stopwatch("forward", mix_seed=70, passes=5, touch=False)
    assert len(of.samples(5)) == 2  # a whole pass


SHARED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, again, row, expanded, transposed, z):
        return x + again + row + expanded + transposed + z.real


def get_inputs():
    x = torch.randn(16, 32)
    wide = torch.randn(16, 1).expand(16, 32)
    z = torch.randn(16, 32, dtype=torch.complex64)
    return [x, x, x[3], wide, torch.randn(32, 16).t(), z]
"""


def test_inputs_that_share_memory_get_the_values_that_the_judge_works_out() -> None:
    of, seeds = timer([]), [1, 2, 3, 9]
    of.instance = Instance(source=SHARED, path="p.py", size="full", dtype=torch.float32, device=CPU)
    of.reference = of.candidate = Side("candidate", of.instance.model(0))
    of.renew("forward", seeds, [4, 5], random.Random(0), mix_seed=50)
    seen: list[torch.Tensor] = []
    for again in (of.refresh, of.touch):
        again()
        for calls, (first, mix) in zip(of.sets, of.held, strict=True):
            draw = Draw(seed=seeds[first], mix=mix)
            if again == of.refresh:
                torch.testing.assert_close(calls.inputs, of.instance.inputs(draw))
            seen.append(calls.inputs[-1].clone())
    assert all(not torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])


def test_a_gate_that_opened_is_tried_again_on_other_values() -> None:
    class Opening(Steady):
        tried = 0

        def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
            unit = super().unit(side, mode, sets)
            self.tried += 1
            if self.tried % 2:
                raise GateOpened
            return unit

    log: list[tuple[str, float]] = []
    epoch(timer(log, Opening()), seeds=[1, 2], grad_seeds=[3])
    values = [value for name, value in log[2:] if name == "candidate"]
    assert len(values) == 2 * (1 + 2 * 3)  # one is thrown away
    assert values[0] != values[1] or values[2] != values[3]


def test_a_subclass_returned_in_a_timed_call_is_refused() -> None:
    class Lazy(torch.Tensor):
        pass

    class Late(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (2 * x).as_subclass(Lazy)

    of = timer([])
    of.candidate = Side("candidate", Late())
    with pytest.raises(ContractFault, match="Lazy"):
        epoch(of)


def test_garbage_collection_is_on_again_after_an_epoch_also_after_an_error() -> None:
    import gc

    epoch(timer([]))
    assert gc.isenabled()

    class Broken:
        def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
            raise KeyError

    with pytest.raises(KeyError):
        epoch(timer([], Broken()))
    assert gc.isenabled()


class Lent(torch.nn.Module):
    """What it returns, or the gradient of that, lies in memory that the next unit writes to."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("kept", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "buffer":
            return self.kept.copy_(x)  # type: ignore[operator,no-any-return]
        return x.t() if self.kind == "view" else x.sum(dim=1)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("view", "forward"), ("buffer", "forward"), ("view", "backward"), ("sum", "backward")],
)
def test_what_lies_in_memory_that_the_next_unit_writes_to_is_kept_as_it_was(
    kind: str, mode: str
) -> None:
    of = timer([])
    of.candidate = Side("candidate", Lent(kind))
    kept = [of.kept[unit][0] for unit in epoch(of, mode, seeds=[1, 2], grad_seeds=[4])["kept"]]
    values = [one if mode == "forward" else one["x"] for one in kept]
    assert len({float(one.sum()) for one in values}) == len(values) > 1
    of.stopwatch(mode, mix_seed=1, passes=3, touch=False)
    values = [one if mode == "forward" else one["x"] for one in of.returned]
    assert len({float(one.sum()) for one in values}) == len(values) == 3


def test_warming_up_calls_both_sides_often_enough_and_estimates_each() -> None:
    log: list[tuple[str, float]] = []
    answer = timer(log).warm_up("forward", 1, calls=7, seconds=0.0)
    assert answer["ms"] == {"reference": 4.0, "candidate": 2.0}
    assert not answer["host_bound"]
    assert set(answer["wall_ms"]) == {"reference", "candidate"}
    assert all(value > 0 for value in answer["wall_ms"].values())
    for name in ("reference", "candidate"):
        assert sum(side == name for side, _ in log) >= 7


def test_a_side_that_is_host_bound_puts_both_on_the_wall_clock() -> None:
    class Bound(Steady):
        def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
            if side.name == "candidate":
                raise HostBound("needs the host")
            return super().unit(side, mode, sets)

    of = timer([], Bound())
    answer = of.warm_up("forward", 1, calls=2, seconds=0.0)
    assert answer["host_bound"]
    assert all(value > 0 for value in answer["ms"].values())
    assert all(unit > 0 for block in epoch(of)["blocks"] for unit in block["reference"])
    assert epoch(of)["host_bound"]


def test_an_epoch_tells_that_a_side_has_come_to_be_host_bound() -> None:
    class Later(Steady):
        bound = False

        def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
            if self.bound:
                raise HostBound("needs the host")
            return super().unit(side, mode, sets)

    meter = Later()
    of = timer([], meter)
    assert not of.warm_up("forward", 1, calls=2, seconds=0.0)["host_bound"]
    assert not epoch(of)["host_bound"]
    meter.bound = True
    assert epoch(of)["host_bound"]


def test_a_clock_that_stands_still_is_answered_and_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meters, "_clock", lambda: 0)
    of = timer([], meters.CpuMeter())
    assert of.warm_up("forward", 1, calls=2, seconds=0.0)["ms"]["candidate"] == 0.0


@pytest.mark.parametrize("mode", ["forward", "forward_train", "backward", "forward_backward"])
def test_the_cpus_meter_runs_each_set_once_and_prepares_before_the_clock(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    log: list[Any] = []
    monkeypatch.setattr(meters, "_clock", lambda: log.append(("clock", 0.0)) or 10**6 * len(log))
    calls = [call_set(instance(), Draw(seed=s), grad=True, grad_seed=1) for s in (1, 2)]
    unit = meters.CpuMeter().unit(Side("candidate", Counted("candidate", log)), mode, calls)
    between = log[log.index(("clock", 0.0)) + 1 : -1]
    assert len(unit.outputs) == 2
    assert unit.ms == 1 + len(between), "the clock ticks once a call, and at its own readings"
    assert len(between) == (0 if mode == "backward" else 2)
    assert sum(name == "candidate" for name, _ in log) == 2


def test_the_order_of_blocks_comes_from_the_judges_seed() -> None:
    logs: list[list[tuple[str, float]]] = [[], []]
    for log in logs:
        random.seed()
        epoch(timer(log), order_seed=5)
    assert logs[0] == logs[1]
