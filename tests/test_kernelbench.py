"""Files in KernelBench's form, one trait each: they load, draw, run forward and backward, fit a
smaller device, and pass as their own solution."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from support import Bench

from harness import catalog, fit, identity
from harness.config import Settings
from harness.errors import ProblemError
from harness.judge import evaluate
from harness.judge.case import open_case
from harness.judge.checking.survey import survey
from harness.judge.context import Context
from harness.judge.process.sandbox import Worker
from harness.judge.reference import Reference
from harness.judge.timing import baseline
from harness.judge.timing.baseline import Baseline
from harness.records import ModeResult, Problem, Status
from harness.shared.binding import NoBackward
from harness.shared.draws import Draw, GradDraw
from harness.shared.problem import FULL, Instance
from harness.shared.trees import walk_tensors

FOLDER = Path(__file__).resolve().parent / "kernelbench"
NAMES = list(catalog.find_problems(FOLDER))
CPU = torch.device("cpu")
NOT_DIFFERENTIABLE = {"level1/5_Argmax_over_rows", "level1/23_Whole_numbers"}
#: Where no constant can be made smaller: there is none.
FIXED = {
    "level1/10_No_initial_values",
    "level1/14_Positional_and_named",
    "level1/24_Tuple_of_inputs",
}


def instance(problem: Problem, device: torch.device = CPU, size: str = FULL) -> Instance:
    return Instance(
        source=problem.source, path=problem.path, size=size, dtype=torch.float32, device=device
    )


def from_text(text: str) -> Problem:
    return Problem(name="text", path="text.py", source=text, digest="0" * 16)


def test_there_are_files_of_every_level() -> None:
    assert len(NAMES) >= 30
    assert {catalog.level_of(name) for name in NAMES} == {1, 2, 3}
    assert {"level1/1_Scale", "level2/1_Scale"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_forward_and_backward(name: str) -> None:
    reference = Reference(instance(catalog.load_problem(name, FOLDER)), weights_seed=1)
    first, again = (dict(walk_tensors(reference.call(Draw(seed=7)).output, "")) for _ in range(2))
    assert first
    assert all(torch.equal(first[path], again[path]) for path in first)
    other = dict(walk_tensors(reference.call(Draw(seed=8)).output, ""))
    assert not all(torch.equal(first[path], other[path]) for path in first), "the seed is not read"
    if name in NOT_DIFFERENTIABLE:
        with pytest.raises(NoBackward):
            reference.call(Draw(seed=7), GradDraw(seed=7))
        return
    grads = reference.call(Draw(seed=7), GradDraw(seed=7)).grads
    assert any(grad is not None and bool(grad.any()) for grad in grads.values())


@pytest.mark.parametrize("name", NAMES)
def test_it_fits_half_of_what_it_takes(name: str) -> None:
    problem = catalog.load_problem(name, FOLDER)
    assert scaled(problem, budget=1 << 40) == FULL
    if name in FIXED:
        return
    size = scaled(problem, budget=fit.counted(instance(problem, fit.META)).bytes * 0.8)
    assert size != FULL
    assert (
        fit.counted(instance(problem, fit.META, size)).bytes
        < fit.counted(instance(problem, fit.META)).bytes
    )
    Reference(instance(problem, size=size), weights_seed=1).call(Draw(seed=1))


def scaled(problem: Problem, budget: float) -> str:
    limit = fit.Cost(bytes=budget, forward_s=1e9)
    return fit.fitted(problem.source, problem.path, dtype=torch.float32, device=CPU, budget=limit)


# --- as its own solution --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_worker(bench: Bench) -> Iterator[None]:
    """All evaluations in one worker: nothing here is untrusted, and each start takes seconds."""
    start = Context.worker
    with contextlib.ExitStack() as stack:
        worker = stack.enter_context(start(bench.context(), "shared", salt="identity"))

        @contextlib.contextmanager
        def shared(self: Context, name: str, **_: Any) -> Iterator[Worker]:
            yield worker

        stack.enter_context(mock.patch.object(Context, "worker", shared))
        yield


def self_check(bench: Bench, problem: Problem, size: str = FULL, **changes: Any) -> Any:
    with mock.patch.object(baseline, "measure", return_value=Baseline()):
        case = open_case(bench.context(**changes), problem, size)
    return evaluate.evaluate(case, identity.solution(problem, size))[0]


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize("name", NAMES)
def test_it_passes_as_its_own_solution(name: str, bench: Bench) -> None:
    problem = catalog.load_problem(name, FOLDER)
    row = self_check(bench, problem, layouts=(), modes=(), require_backward=False)
    assert row.verdict.status is Status.PASS, row.verdict.message


def test_eager_that_cannot_go_back_twice_has_no_backward() -> None:
    """What the first call leaves in an attribute has a graph that is gone in the second."""
    problem = catalog.load_problem("7_State_in_an_attribute", FOLDER)
    reference = Reference(instance(problem), weights_seed=1)
    settings = Settings(device="cpu", layouts=())
    assert survey(reference, dataclasses.replace(settings, require_backward=False)).outputs == ()
    with pytest.raises(ProblemError, match="backward through the graph a second time"):
        survey(reference, settings)


@pytest.mark.usefixtures("one_worker")
def test_the_identity_is_made_at_the_size_that_is_judged(bench: Bench) -> None:
    """Its constants size a tensor that is no input: those as written would not fit."""
    problem = catalog.load_problem("5_Plain_state", FOLDER)
    row = self_check(bench, problem, "batch_size=2", layouts=())
    assert (row.verdict.status, row.size) == (Status.PASS, "batch_size=2")


@pytest.mark.usefixtures("one_worker")
def test_an_identity_of_another_function_does_not_pass(bench: Bench) -> None:
    problem = catalog.load_problem("level1/1_Scale", FOLDER)
    other = dataclasses.replace(problem, source=problem.source.replace("x * self", "2 * x * self"))
    with mock.patch.object(baseline, "measure", return_value=Baseline()):
        case = open_case(bench.context(), problem, FULL)
    row = evaluate.evaluate(case, identity.solution(other, FULL))[0]
    assert row.verdict.status is Status.WRONG_OUTPUT


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [(0.98, 1.02, 0), (1.004, 1.02, 0), (0.97, 0.996, 0), (1.01, 1.03, 1), (0.9, 0.99, 1)],
)
def test_an_interval_without_one_is_told(low: float, high: float, told: int) -> None:
    result = ModeResult(speedup=(low + high) / 2, low=low, high=high)
    row = mock.Mock(modes={"forward": result, "backward": ModeResult()})
    assert len(identity.complaints(row)) == told


# --- where things are made ------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_made_on_the_device_where_the_code_allows_it(name: str) -> None:
    """`meta` stands in for a GPU: what is made there allocates nothing."""
    made = instance(catalog.load_problem(name, FOLDER), fit.META).drawn(1)
    assert all(tensor.device == fit.META for _, tensor in walk_tensors(made, ""))


def test_code_that_works_on_the_cpu_only_is_run_there() -> None:
    problem = catalog.load_problem("level1/20_Own_generator", FOLDER)
    met: list[str] = []

    def make(where: torch.device) -> str:
        met.append(where.type)
        if where.type != "cpu":
            raise ProblemError("a generator of the CPU", path="x.py")
        return "made"

    assert instance(problem)._where_it_can(torch.device("cuda"), make) == "made"
    assert met == ["cuda", "cpu"]


def test_what_works_nowhere_is_told_as_on_the_device() -> None:
    def make(where: torch.device) -> str:
        raise ProblemError(f"not on {where.type}", path="x.py")

    with pytest.raises(ProblemError, match="not on cuda"):
        instance(catalog.load_problem(NAMES[0], FOLDER))._where_it_can(torch.device("cuda"), make)


# --- the problem's own fault ----------------------------------------------------------------------

START = """
import torch
class Model(torch.nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.sizes = sizes
    def forward(self, x):
        return {forward}
def get_inputs():
    return {inputs}
def get_init_inputs():
    return {init}
"""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"inputs": "torch.rand(4)"}, "get_inputs returns a Tensor, not a list"),
        ({"inputs": "{'x': torch.rand(4)}"}, "get_inputs returns a dict, not a list"),
        ({"inputs": "[torch.rand(4) + missing]"}, "get_inputs failed: NameError"),
        ({"inputs": "[torch.rand(4), 1]"}, "Model.forward failed: TypeError"),
        ({"init": "5"}, "get_init_inputs returns a int, not a list"),
        ({"init": "[1 / 0]"}, "get_init_inputs failed: ZeroDivisionError"),
        ({"init": "{'width': 5}"}, "Model failed: TypeError"),
        ({"forward": "x @ torch.rand(7)"}, "Model.forward failed: RuntimeError"),
        ({"forward": "None"}, "returns no tensor"),
        ({"forward": "[]"}, "returns no tensor"),
    ],
)
def test_what_is_wrong_with_the_reference_is_its_own_fault(
    changes: dict[str, str], reason: str, bench: Bench
) -> None:
    values = {"forward": "x * 2", "inputs": "[torch.rand(4)]", "init": "[]"} | changes
    problem = from_text(START.format(**values))
    with pytest.raises(ProblemError, match=reason):
        open_case(bench.context(modes=()), problem, FULL)


@pytest.mark.parametrize(
    ("init", "sizes"),
    [
        ("[]", ()),
        ("[3, [4, 5]]", (3, [4, 5])),
        ("(1, None)", (1, None)),
        ("[[1, 2], {}]", ([1, 2], {})),  # Model takes both as they are
    ],
)
def test_initial_values_arrive_as_they_are(init: str, sizes: tuple[Any, ...]) -> None:
    problem = from_text(START.format(forward="x", inputs="[torch.rand(4)]", init=init))
    assert instance(problem).model(1).sizes == sizes


def test_a_list_and_options_are_told_apart_by_their_names() -> None:
    text = START.format(forward="x", inputs="[]", init='[[8], {"depth": 2}]')
    text = text.replace("self, *sizes", "self, width, depth=1")
    model = instance(from_text(text.replace("= sizes", "= width, depth"))).model(1)
    assert model.sizes == (8, 2)
