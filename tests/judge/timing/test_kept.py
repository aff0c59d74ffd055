"""What was measured of a reference is used again only where eager still takes what it took."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import HONEST, TINY, Bench

from harness.judge import evaluate
from harness.judge.context import Context
from harness.judge.subject import Subject
from harness.judge.timing import baseline, kept
from harness.judge.timing.baseline import EAGER, Baseline
from harness.records import Block, Epoch, Memory, Problem, Timing
from harness.shared.mixing import Renewal

COMPILED = "default"


def timing(reference_ms: float, ratio: float = 1.0, *, count: int = 3, **more: Any) -> Timing:
    solution_ms = reference_ms / ratio
    block = Block(reference_ms=(reference_ms,) * 2, solution_ms=(solution_ms,) * 2)
    epochs = (Epoch(blocks=(block,) * 3, wall_s=1.0),) * count
    return Timing(mode="forward", calls=4, epochs=epochs, flags=("launch_bound",), **more)


@dataclasses.dataclass(kw_only=True)
class Measuring:
    """Stands in for `baseline.measure`: eager takes `ms`; what was asked is in `known`."""

    ms: float = 10.0
    notes: tuple[str, ...] = ()
    ratio: float = 1.001
    again: int = baseline.EPOCHS_KNOWN  # epochs of what is known, as on a GPU
    known: list[bool] = dataclasses.field(default_factory=list)

    def __call__(self, *_: object, known: bool = False, **asked: Any) -> Baseline:
        self.known.append(known)
        count = self.again if known else 5
        eager = {(EAGER, "forward"): timing(self.ms, self.ratio, count=count, stopwatch_ms=11.0)}
        if known:
            memory = Memory(inference_peak_mib=6.0)
            return Baseline(timings=eager, overhead_ms=0.002, memory=memory)
        return Baseline(
            timings=eager | {(COMPILED, "forward"): timing(3 * self.ms, 2.0)},
            memory=Memory(inference_peak_mib=5.0),
            bandwidth=((0.0, 4e12), (1.0, 3e12)),
            flops_per_s=5e13,
            overhead_ms=0.001,
            notes=self.notes,
        )


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Measuring:
    measuring = Measuring()
    monkeypatch.setattr(baseline, "measure", measuring)
    return measuring


@pytest.fixture
def context(bench: Bench, tmp_path: Path) -> Context:
    return dataclasses.replace(bench.context(), cache=tmp_path)


@pytest.fixture
def problem(bench: Bench) -> Problem:
    return bench.problem(TINY)


def measure(context: Context, problem: Problem, **changes: Any) -> Baseline:
    subject = dataclasses.replace(Subject(problem=problem, size="full"), **changes)
    return kept.measure(context, subject, modes=("forward",), flops=False)


def test_the_rest_is_used_again_where_eager_still_takes_what_it_took(
    context: Context, problem: Problem, measuring: Measuring
) -> None:
    first = measure(context, problem)
    measuring.ms = 10.9
    second = measure(context, problem)
    assert measuring.known == [False, True]
    assert second.timings[COMPILED, "forward"] == first.timings[COMPILED, "forward"]
    assert second.timings[EAGER, "forward"].reference_ms == 10.9
    assert (second.bandwidth, second.flops_per_s) == (first.bandwidth, first.flops_per_s)
    assert (second.memory.inference_peak_mib, second.overhead_ms) == (6.0, 0.002)  # of now
    assert (first.kept, second.kept) == (frozenset(), {COMPILED})


@pytest.mark.parametrize(("epochs", "off"), [(baseline.EPOCHS_KNOWN, 0.001), (5, 0.002)])
def test_what_was_too_short_for_an_a_a_test_has_the_noise_of_the_one_before(
    context: Context, problem: Problem, measuring: Measuring, epochs: int, off: float
) -> None:
    measure(context, problem)
    measuring.again, measuring.ratio = epochs, 1.002
    assert measure(context, problem).noise("forward") == pytest.approx(off)


def test_claims_are_held_against_times_of_this_run_alone(
    context: Context, problem: Problem, measuring: Measuring
) -> None:
    first = measure(context, problem).of_this_run("forward")
    assert max(timing.reference_ms for timing in first) == 30.0
    second = measure(context, problem)
    assert [timing.reference_ms for timing in second.of_this_run("forward")] == [10.0]
    compiled = second.best_compiled("forward")
    assert compiled is not None
    assert compiled.interval.ratio == pytest.approx(2.0)


@pytest.mark.parametrize("ms", [8.9, 11.2, 20.0])
def test_everything_is_measured_anew_where_eager_takes_another_time(
    context: Context, problem: Problem, measuring: Measuring, ms: float
) -> None:
    measure(context, problem)
    measuring.ms = ms
    again = measure(context, problem)
    assert measuring.known == [False, True, False]
    assert again.kept == frozenset()
    assert measure(context, problem).kept == {COMPILED}  # of what was measured anew


def test_a_gpu_has_to_agree_to_two_percent() -> None:
    then, now = (Baseline(timings={(EAGER, "forward"): timing(ms)}) for ms in (10.0, 10.19))
    assert kept.agree(then, now, within=kept.TOLERANCE["cuda"])
    slower = Baseline(timings={(EAGER, "forward"): timing(10.3)})
    assert not kept.agree(then, slower, within=kept.TOLERANCE["cuda"])
    other = Baseline(timings={(EAGER, "backward"): timing(10.0)})
    assert not kept.agree(then, other, within=kept.TOLERANCE["cuda"])


@pytest.mark.parametrize("changes", [{"keep_baseline": False}, {"quick": True}])
def test_nothing_old_is_used_where_that_is_not_wanted(
    bench: Bench, context: Context, problem: Problem, measuring: Measuring, changes: dict[str, Any]
) -> None:
    measure(context, problem)
    measure(context.on(dataclasses.replace(context.settings, **changes)), problem)
    assert measuring.known == [False, False]


def test_a_failure_of_torch_compile_is_not_kept(
    context: Context, problem: Problem, measuring: Measuring
) -> None:
    measuring.notes = ("torch.compile (default) failed: out of memory",)
    measure(context, problem)
    measure(context, problem)
    assert measuring.known == [False, False]


def other_problem(context: Context, problem: Problem) -> tuple[Context, Problem]:
    return context, dataclasses.replace(problem, digest="0" * 12)


def other_settings(context: Context, problem: Problem) -> tuple[Context, Problem]:
    return context.on(dataclasses.replace(context.settings, allow_tf32=True)), problem


def other_device(context: Context, problem: Problem) -> tuple[Context, Problem]:
    device = dataclasses.replace(context.device, uuid="another card of the same name")
    return dataclasses.replace(context, device=device), problem


@pytest.mark.parametrize("other", [other_problem, other_settings, other_device])
def test_what_was_kept_is_for_the_same_problem_settings_and_device(
    context: Context,
    problem: Problem,
    measuring: Measuring,
    other: Callable[[Context, Problem], tuple[Context, Problem]],
) -> None:
    measure(context, problem)
    measure(*other(context, problem))
    measure(context, problem, size="odd")
    measure(context, problem, renewal=Renewal(mix=False))
    assert measuring.known == [False, False, False, False]


def test_what_was_kept_is_for_the_same_torch_and_harness(
    context: Context, problem: Problem, measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(context, problem)
    with monkeypatch.context() as patch:
        patch.setattr("torch.__version__", "9.9")
        measure(context, problem)
    monkeypatch.setattr("harness.__version__", "9.9")
    measure(context, problem)
    assert measuring.known == [False, False, False]


def spoiled(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def spoil(text: str) -> str:
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        spoiled(lambda c: c.pop("timings")),
        spoiled(lambda c: c.update(flops_per_s=-1.0)),
        spoiled(lambda c: c.update(bandwidth=[[0.0, float("nan")]])),
        spoiled(lambda c: c["timings"][0]["timing"]["epochs"][0].update(blocks=[{"x": [1, 1]}])),
        spoiled(lambda c: c["timings"][0]["timing"].update(surprise=1)),
    ],
)
def test_a_file_that_holds_something_else_is_measured_anew(
    context: Context, problem: Problem, measuring: Measuring, spoil: Callable[[str], str]
) -> None:
    measure(context, problem)
    (file,) = (context.cache / "baselines").iterdir()
    file.write_text(spoil(file.read_text()))
    measure(context, problem)
    assert measuring.known == [False, False]
    measure(context, problem)
    assert measuring.known[-1], "the file has been replaced"


@pytest.mark.parametrize("name", [EAGER, "eager again", "eager, planted"])
def test_no_time_of_eager_is_taken_from_a_file(
    context: Context, problem: Problem, measuring: Measuring, name: str
) -> None:
    # By it any claim would pass the judge's clock: the most lenient of its readings counts.
    measure(context, problem)
    (file,) = (context.cache / "baselines").iterdir()
    planted = {"baseline": name, "timing": dataclasses.asdict(timing(10.0, stopwatch_ms=1e6))}
    file.write_text(spoiled(lambda c: c["timings"].append(planted))(file.read_text()))
    found = measure(context, problem)
    assert measuring.known == [False, True]
    assert [t.stopwatch_ms for t in found.stopwatches("forward")] == [11.0]
    assert [timing.reference_ms for timing in found.of_this_run("forward")] == [10.0]
    assert found.kept == {COMPILED}


def test_a_row_says_that_its_compile_figures_are_of_an_earlier_run(bench: Bench) -> None:
    problem = bench.problem(TINY)
    case, solution = bench.case(problem), bench.solution(HONEST, problem)
    found = Baseline(timings={(COMPILED, "forward"): timing(1.0, 2.0)})
    for names, wanted in ((frozenset({COMPILED}), True), (frozenset(), False)):
        judged = dataclasses.replace(case, baseline=dataclasses.replace(found, kept=names))
        if not names:  # which has nothing to hold a claim against
            timings = {(COMPILED, "forward"): timing(1000.0, 2.0)}
            judged = dataclasses.replace(case, baseline=Baseline(timings=timings))
        row, _ = evaluate.evaluate(judged, solution)
        assert row.modes["forward"].compile_speedup is not None, row.verdict
        assert ("compile_stored" in row.flags) is wanted
