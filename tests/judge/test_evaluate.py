"""One solution, from text to row: every kind of failure gets its own verdict, nothing else does."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
import torch
from support import SCALE_SOURCE, TINY, Bench, judges

from harness.errors import ProblemError
from harness.judge import audit, evaluate, performance, verdicts
from harness.judge.case import open_case
from harness.judge.checking import checks
from harness.judge.context import Context
from harness.judge.process.sandbox import WorkerFault, WorkerLied, claimed
from harness.judge.rows import Findings
from harness.judge.subject import Subject
from harness.judge.timing import baseline, measure
from harness.judge.timing.baseline import Baseline
from harness.records import MODES, Phase, Row, Status
from harness.shared.trial import Played
from harness.timings import Epoch, Timing

WEIGHTED = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 3)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(4, 5)]


def get_init_inputs():
    return [5]
"""

SLOW_TO_END = """
import os
import torch

open({note!r}, "w").write(str(os.getpid()))


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return ((x - y) ** 2).mean(dim=1)
"""

ALL = {"modes": MODES, "measure_memory": True, "profile": True}
BOTH = {"modes": ("forward", "forward_backward")}


def model(forward: str, *, before: str = "", init: str = "", takes: str = "x, y") -> str:
    """A solution of `TINY`: the body of its forward, and what comes before the class."""
    made = (
        f"    def __init__(self):\n        super().__init__()\n        {init}\n\n" if init else ""
    )
    body = "\n".join(f"        {line}" for line in forward.splitlines())
    return (
        f"import torch\n{before}\n\nclass ModelNew(torch.nn.Module):\n{made}"
        f"    def forward(self, {takes}):\n{body}\n"
    )


FACTOR = r"everywhere [\d.]+x the reference"
RIGHT = "return ((x - y) ** 2).mean(dim=1)"


def function(backward: str) -> str:
    """A solution whose forward is right and whose backward is `backward`, of grad, x and y."""
    before = (
        "class F(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, y):\n"
        "        ctx.save_for_backward(x, y)\n"
        f"        {RIGHT}\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        x, y = ctx.saved_tensors\n"
        "        both = 2 * (x - y) / x.shape[1]\n"
        f"        {backward}\n"
    )
    return model("return F.apply(x, y)", before=before)


def is_row(row: Row, status: Status, phase: Phase, message: str) -> None:
    found = (row.verdict.status, row.verdict.phase)
    assert found == (status, phase), row.verdict
    assert re.search(message, row.verdict.message), row.verdict.message
    assert "\n" not in row.verdict.message
    if status not in (Status.PASS, Status.FORWARD_ONLY):
        assert not any(value for key, value in row.flat().items() if key.endswith("_speedup"))


Rows = Callable[[str], Row]


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Rows]:
    """The row of a kind out of the tables below; those that are asked for run beside the tests."""
    jobs: dict[str, tuple[str, str]] = {
        **{kind: (source, TINY) for kind, (source, _) in WRONG.items()},
        **{kind: (function(backward), TINY) for kind, (backward, _) in GRADIENTS.items()},
        **{kind: case[:2] for kind, case in CONTRACT.items()},
        **{kind: (case[0], TINY) for kind, case in RAISING.items()},
        **{
            kind: (model(RIGHT, before=FORGER.replace("FORGED", body)), TINY)
            for kind, body in FORGED.items()
        },
    }
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = {t.callspec.params.get("kind") for t in tests if hasattr(t, "callspec")}
    with judges(bench.folder) as judge:
        futures = {kind: judge(*job) for kind, job in jobs.items() if kind in wanted}
        yield lambda kind: futures[kind].result()


# --- what is right ------------------------------------------------------------------------------


#: What a forward does to a buffer that is saved for the backward.
IN_A_BUFFER = {
    "goes on in place": "self.kept.copy_(torch.sin(self.kept))",
    "puts another in its place": "self.kept = torch.sin(self.kept)",
    "writes the same once more": "self.kept.copy_(self.kept)",
    "puts a longer one in its place": "self.kept = self.kept.new_ones(len(self.kept) + 1)",
}


@pytest.mark.parametrize("kept", IN_A_BUFFER.values(), ids=IN_A_BUFFER.keys())
def test_a_backward_is_timed_where_no_two_calls_can_be_under_way(bench: Bench, kept: str) -> None:
    """A later forward, or putting buffers back before it, changes what the one before has saved."""
    lines = ["self.register_buffer('kept', torch.rand(64) + 0.5)", kept]
    problem = f"""
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {lines[0]}

    def forward(self, x):
        with torch.no_grad():
            {lines[1]}
        return (x * self.kept[:64]).tanh()


def get_inputs():
    return [torch.randn(8, 64)]
"""
    solution = problem.replace("Model(", "ModelNew(").partition("def get_inputs")[0]
    row = bench.judge(solution, problem, modes=("backward",))
    is_row(row, Status.PASS, Phase.DONE, "^$")
    assert row.modes["backward"].solution_ms is not None


#: Buffers of other kinds than plain arrays that stay what they are: the first values, a call.
BUFFERS = {
    "sparse": ("torch.eye(8).to_sparse()", "torch.sparse.mm(self.kept, x)"),
    "compressed": ("torch.eye(8).to_sparse_csr()", "self.kept @ x"),
    "expanded": ("torch.rand(1).expand(64)", "x * self.kept"),
    "only grows": ("torch.ones(())", "x / self.kept.copy_(self.kept.maximum(x.detach().max()))"),
}


@pytest.mark.parametrize(("first", "call"), BUFFERS.values(), ids=BUFFERS.keys())
def test_a_reference_passes_as_its_own_solution_whatever_its_buffers(
    bench: Bench, first: str, call: str
) -> None:
    problem = f"""
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", {first})

    def forward(self, x):
        return {call}


def get_inputs():
    return [torch.randn(8, 64)]
"""
    solution = problem.replace("Model(", "ModelNew(").partition("def get_inputs")[0]
    row = bench.judge(solution, problem, modes=("forward", "backward"))
    is_row(row, Status.PASS, Phase.DONE, "^$")
    dense = solution.replace(first, "torch.zeros(8, 8)").replace("torch.sparse.mm", "torch.mm")
    if "sparse" in first:  # the values of which are then a solution's to lay out
        is_row(bench.judge(dense, problem), Status.PASS, Phase.DONE, "^$")


def test_what_a_call_returns_may_be_written_over_by_the_next(bench: Bench) -> None:
    """As by a model that returns its running mean."""
    problem = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(64))

    def forward(self, x):
        with torch.no_grad():
            self.mean.copy_(x.mean(dim=0))
        return 2 * x, self.mean


def get_inputs():
    return [torch.randn(8, 64)]
"""
    solution = problem.replace("Model(", "ModelNew(").partition("def get_inputs")[0]
    is_row(bench.judge(solution, problem), Status.PASS, Phase.DONE, "^$")
    stale = solution.replace("2 * x, self.mean", "2 * x, torch.zeros(64)")
    is_row(bench.judge(stale, problem), Status.WRONG_OUTPUT, Phase.FORWARD, r"output\[1\]")


def test_a_right_solution_passes_with_every_column_measured(bench: Bench) -> None:
    row = bench.judge(model(RIGHT), real_baseline=True, **ALL)
    is_row(row, Status.PASS, Phase.DONE, "^$")
    flat = row.flat()
    for mode in MODES:
        for field in ("reference_ms", "solution_ms", "speedup", "low", "high", "limit_fraction"):
            assert isinstance(flat[f"{mode}_{field}"], float), (mode, field)
    for side in ("", "reference_"):
        assert flat[f"{side}inference_peak_mib"] > 0  # type: ignore[operator]
        assert flat[f"{side}training_peak_mib"] > 0  # type: ignore[operator]
    assert row.error_ratio is not None
    assert row.error_ratio < 10
    assert "library_only" in row.flags
    assert row.total_s is not None


def test_gradients_of_a_custom_function_pass(bench: Bench) -> None:
    row = bench.judge(function("g = grad[:, None] * both; return g, -g"))
    is_row(row, Status.PASS, Phase.DONE, "^$")


def test_weights_are_taken_over_by_name_and_parameter_gradients_are_checked(bench: Bench) -> None:
    named = WEIGHTED.replace("Model", "ModelNew")
    is_row(bench.judge(named, WEIGHTED), Status.PASS, Phase.DONE, "^$")
    detached = "x @ self.linear.weight.t().detach() + self.linear.bias"
    frozen = named.replace("self.linear(x)", detached)
    row = bench.judge(frozen, WEIGHTED)
    is_row(row, Status.WRONG_GRADIENT, Phase.BACKWARD, r"linear\.weight.*None")


def test_weights_of_other_names_are_taken_over_in_order_and_it_is_said(bench: Bench) -> None:
    source = WEIGHTED.replace("Model", "ModelNew").replace("self.linear", "self.renamed")
    row = bench.judge(source, WEIGHTED)
    is_row(row, Status.PASS, Phase.DONE, "in order: the names differ")


def test_a_clock_that_is_patched_at_import_changes_nothing(bench: Bench) -> None:
    before = "import time\ntime.perf_counter_ns = time.monotonic_ns = lambda: 0"
    is_row(bench.judge(model(RIGHT, before=before)), Status.PASS, Phase.DONE, "^$")


def test_another_tolerance_of_the_problem_holds_for_timed_outputs_too(bench: Bench) -> None:
    problem = TINY + "\nTOLERANCES = {'float32': (0.5, 0.5)}\n"
    rough = model("return ((x - y) ** 2).mean(dim=1) * 1.01")
    row = bench.judge(rough, problem, error_ratio_limit=1e6)
    is_row(row, Status.PASS, Phase.DONE, "^$")
    is_row(bench.judge(rough), Status.WRONG_OUTPUT, Phase.FORWARD, FACTOR)


def test_timed_calls_that_change_their_inputs_are_not_compared_and_it_is_said(bench: Bench) -> None:
    source = TINY.replace(
        "return ((x - y) ** 2).mean(dim=1)", "return x.detach().mul_(0.5).add_(y)"
    )
    changing = source + "\nGRAD_INPUTS = ()\n"
    row = bench.judge(source.split("\n\n\ndef")[0].replace("Model", "ModelNew"), changing)
    is_row(row, Status.PASS, Phase.DONE, "^$")
    assert "timed_outputs_not_compared" in row.flags
    row = bench.judge(model("return x.detach().mul(0.5).add_(y)"), changing)
    text = "input x is not as the reference leaves it in place"
    is_row(row, Status.WRONG_OUTPUT, Phase.FORWARD, text)


COUNTS = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.bincount(x, minlength=50)


def get_inputs():
    return [torch.randint(0, 50, (1 << 15,))]
"""
COUNTS_KEPT = """
import torch


class ModelNew(torch.nn.Module):
    kept = {}

    def forward(self, x):
        key = tuple(x[:20].tolist())
        if key not in self.kept:
            self.kept[key] = torch.bincount(x, minlength=50)
        return self.kept[key].clone()
"""


def test_where_values_come_again_in_timed_calls_it_is_said(bench: Bench) -> None:
    row = bench.judge(COUNTS.split("\n\n\ndef")[0].replace("Model", "ModelNew"), COUNTS)
    is_row(row, Status.PASS, Phase.DONE, "^$")
    assert "values_come_again" in row.flags


def test_what_keeps_results_by_content_is_right_and_faster_but_not_at_first(bench: Bench) -> None:
    row = bench.judge(COUNTS_KEPT, COUNTS)
    is_row(row, Status.REJECTED, Phase.AUDIT, "nothing was met before")
    assert "values_come_again" not in bench.judge(COUNTS_KEPT, COUNTS, modes=()).flags, "untimed"
    assert "values_come_again" not in bench.judge(model(RIGHT)).flags, "values can be mixed"


def test_times_without_a_profile_say_that_nobody_looked_whose_kernels_ran(bench: Bench) -> None:
    assert "not_profiled" in bench.judge(model(RIGHT)).flags
    assert "not_profiled" not in bench.judge(model(RIGHT), modes=()).flags
    assert "not_profiled" not in bench.judge(model(RIGHT), **PROFILED).flags


# --- what is wrong ------------------------------------------------------------------------------

WRONG = {
    "a scaled output": (model("return 1.01 * ((x - y) ** 2).mean(dim=1)"), FACTOR),
    "zeros": (model("return torch.zeros(len(x))"), "output"),
    "another shape": (model("return ((x - y) ** 2).mean(dim=1)[:, None]"), r"\[8, 1\].*\[8\]"),
    "another dtype": (model("return ((x - y) ** 2).mean(dim=1).double()"), "float64"),
    "another structure": (model("return [((x - y) ** 2).mean(dim=1)]"), "list"),
    "nothing": (model("return None"), "None"),
    "memory that was never written": (model("return torch.empty(len(x))"), "NaN|not finite"),
    "part of the output unwritten": (
        model("out = torch.empty(8); out[:7] = ((x - y) ** 2).mean(dim=1)[:7]; return out"),
        "NaN|not finite",
    ),
    "an input changed in place": (
        model("out = ((x - y) ** 2).mean(dim=1)\nx.zero_()\nreturn out"),
        "input x was changed in place",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_output_is_found_in_the_forward_check(rows: Rows, kind: str) -> None:
    _, message = WRONG[kind]
    is_row(rows(kind), Status.WRONG_OUTPUT, Phase.FORWARD, message)


GRADIENTS = {
    "right for a gradient of ones only": ("return both, -both", "grad x"),
    "scaled": ("g = 2 * grad[:, None] * both; return g, -g", "grad x.*" + FACTOR),
    "missing": ("return grad[:, None] * both, None", r"grad y: is missing \(None\)"),
    "of the wrong sign": ("g = grad[:, None] * both; return g, g", "grad y"),
}


@pytest.mark.parametrize("kind", GRADIENTS)
def test_a_wrong_gradient_is_found_after_a_right_output(rows: Rows, kind: str) -> None:
    _, message = GRADIENTS[kind]
    is_row(rows(kind), Status.WRONG_GRADIENT, Phase.BACKWARD, message)


def test_an_output_that_is_wrong_only_with_grad_is_a_wrong_output(bench: Bench) -> None:
    source = model("return ((x - y) ** 2).mean(dim=1) * (1.5 if torch.is_grad_enabled() else 1)")
    is_row(bench.judge(source), Status.WRONG_OUTPUT, Phase.BACKWARD, FACTOR)


def test_a_backward_with_too_many_gradients_is_a_runtime_error_there(bench: Bench) -> None:
    row = bench.judge(function("return both, both, both, both"))
    is_row(row, Status.RUNTIME_ERROR, Phase.BACKWARD, "returned an incorrect number of gradients")


def test_a_right_forward_without_autograd_keeps_its_forward_speedup(bench: Bench) -> None:
    row = bench.judge(model("return ((x - y) ** 2).mean(dim=1).detach()"), **BOTH)
    is_row(row, Status.FORWARD_ONLY, Phase.BACKWARD, "no grad_fn")
    flat = row.flat()
    assert isinstance(flat["forward_speedup"], float)
    assert isinstance(flat["forward_low"], float)
    assert flat["forward_backward_speedup"] is None
    assert not row.verdict.status.fine


def test_a_missing_backward_may_be_allowed(bench: Bench) -> None:
    source = model("return ((x - y) ** 2).mean(dim=1).detach()")
    row = bench.judge(source, require_backward=False)
    is_row(row, Status.PASS, Phase.DONE, "^$")


@pytest.mark.parametrize(
    "broken",
    ["raise NotImplementedError", "x.numpy()", "torch.mul(x, y, out=torch.ones(8, 64))"],
    ids=["its own error", "numpy", "out"],
)
def test_a_backward_that_raises_is_a_flag_where_none_is_wanted(broken: str, bench: Bench) -> None:
    source = model(
        "return broken(x, y) if torch.is_grad_enabled() else ((x - y) ** 2).mean(dim=1)",
        before=f"def broken(x, y): {broken}",
    )
    row = bench.judge(source, require_backward=False)
    is_row(row, Status.PASS, Phase.DONE, "only the forward was asked for; .*Error")
    assert "backward_wrong" in row.flags
    assert bench.judge(source, modes=()).verdict.status is Status.RUNTIME_ERROR


# --- what does not keep the contract ------------------------------------------------------------

CONTRACT = {
    "no ModelNew": ("class Model: pass", TINY, Phase.FIND, "defines no ModelNew.*Model"),
    "a syntax error": ("class ModelNew(:\n", TINY, Phase.FIND, r"\.py:1: "),
    "no code": ("None", TINY, Phase.FIND, "no code"),
    "ModelNew is no class": ("ModelNew = 5", TINY, Phase.BUILD, "defines no class ModelNew"),
    "ModelNew makes no module": (
        "def ModelNew(): return 5",
        TINY,
        Phase.LOAD,
        "makes a int, not an nn.Module",
    ),
    "forward takes fewer arguments": (
        model("return x", takes="x"),
        TINY,
        Phase.LOAD,
        r"ModelNew\.forward does not take \(x, y\)",
    ),
    "forward takes more arguments": (
        model("return x", takes="x, y, z"),
        TINY,
        Phase.LOAD,
        r"ModelNew\.forward does not take \(x, y\).*'z'",
    ),
    "the constructor takes other arguments": (
        WEIGHTED.replace("Model", "ModelNew").replace("self, width", "self"),
        WEIGHTED,
        Phase.LOAD,
        "ModelNew does not take Model's arguments.*positional argument",
    ),
    "other parameters": (
        WEIGHTED.replace("Model", "ModelNew").replace("Linear(width, 3)", "Linear(width, 4)"),
        WEIGHTED,
        Phase.LOAD,
        r"the reference has \[linear.weight \(3, 5\).*ModelNew has \[linear.weight \(4, 5\)",
    ),
    "a lazy subclass": (
        model(
            "return ((x - y) ** 2).mean(dim=1).as_subclass(Lazy)",
            before="class Lazy(torch.Tensor): pass",
        ),
        TINY,
        Phase.FORWARD,
        "a Lazy with attributes .* was returned; a plain torch.Tensor",
    ),
    "an attribute on the output": (
        model("out = ((x - y) ** 2).mean(dim=1)\nout.compute = 5\nreturn out"),
        TINY,
        Phase.FORWARD,
        r"with attributes \['compute'\]",
    ),
}


@pytest.mark.parametrize("kind", CONTRACT)
def test_a_broken_contract_is_told_with_what_was_asked_for(rows: Rows, kind: str) -> None:
    _, _, phase, message = CONTRACT[kind]
    is_row(rows(kind), Status.CONTRACT_ERROR, phase, message)


def test_a_plain_parameter_or_view_is_no_subclass(bench: Bench) -> None:
    source = model("return ((x - y) ** 2).mean(dim=1).view(2, 4).t().t().reshape(-1)")
    is_row(bench.judge(source), Status.PASS, Phase.DONE, "^$")


# --- what raises, dies or hangs -----------------------------------------------------------------

RAISING = {
    "at import": (
        model(RIGHT, before="import no_such_module"),
        Status.LOAD_ERROR,
        Phase.BUILD,
        "ModuleNotFoundError: .*no_such_module",
    ),
    "exit at import": (
        model(RIGHT, before="import sys\nsys.exit(0)"),
        Status.LOAD_ERROR,
        Phase.BUILD,
        "SystemExit: 0",
    ),
    "in the constructor": (
        model(RIGHT, init="raise KeyError('gone')"),
        Status.RUNTIME_ERROR,
        Phase.LOAD,
        "KeyError: 'gone'",
    ),
    "an interrupt in the constructor": (
        model(RIGHT, init="raise KeyboardInterrupt"),
        Status.RUNTIME_ERROR,
        Phase.LOAD,
        "KeyboardInterrupt",
    ),
    "a wrong type inside of the constructor": (
        model(RIGHT, init="len(5)"),
        Status.RUNTIME_ERROR,
        Phase.LOAD,
        "TypeError: object of type 'int' has no len",
    ),
    "in forward": (
        model("raise ValueError('first line\\nsecond line')"),
        Status.RUNTIME_ERROR,
        Phase.FORWARD,
        r"ValueError: first line \(solution\d+\.py:\d+\)$",
    ),
    "an output that cannot be compared": (
        model("return 'text'"),
        Status.CONTRACT_ERROR,
        Phase.FORWARD,
        "a str cannot be compared",
    ),
    "keys that are one key as text": (
        model("return {1: ((x - y) ** 2).mean(dim=1), '1': x}"),
        Status.CONTRACT_ERROR,
        Phase.FORWARD,
        "two keys of a dict are '1': they must differ as text",
    ),
    "memory in forward": (
        model("raise MemoryError"),
        Status.OUT_OF_MEMORY,
        Phase.FORWARD,
        "MemoryError",
    ),
    "memory of the device at import": (
        model(RIGHT, before="raise torch.OutOfMemoryError('tried to allocate')"),
        Status.OUT_OF_MEMORY,
        Phase.BUILD,
        "tried to allocate",
    ),
    "a crash": (
        model("os.abort()", before="import os"),
        Status.CRASH,
        Phase.FORWARD,
        "forward: the process died of SIGABRT",
    ),
    "an exit without a word": (
        model("os._exit(0)", before="import os"),
        Status.CRASH,
        Phase.FORWARD,
        "ended itself with status 0",
    ),
    "a crash at import": (
        model(RIGHT, before="import ctypes\nctypes.string_at(0)"),
        Status.CRASH,
        Phase.BUILD,
        "SIGSEGV",
    ),
}


@pytest.mark.parametrize("kind", RAISING)
def test_what_raises_or_dies_is_told_with_where(rows: Rows, kind: str) -> None:
    _, status, phase, message = RAISING[kind]
    is_row(rows(kind), status, phase, message)


def test_an_endless_loop_is_a_timeout_with_where(bench: Bench) -> None:
    source = model(RIGHT, before="while True: pass")
    row = bench.judge(source, build_timeout_s=1.0)
    is_row(row, Status.TIMEOUT, Phase.BUILD, "build: no answer within 1 s")


@pytest.mark.parametrize(
    ("source", "phase"),
    [
        (model(RIGHT, before="import time; time.sleep(600)"), Phase.BUILD),
        (model(RIGHT, init="import time; time.sleep(600)"), Phase.LOAD),
    ],
)
def test_a_hang_at_import_is_not_waited_for_as_a_build_is(
    bench: Bench, source: str, phase: Phase
) -> None:
    row = bench.judge(source, import_timeout_s=1.0)
    is_row(row, Status.TIMEOUT, phase, r"1 s in which no compiler ran \(import_timeout_s\)")


def test_the_whole_traceback_is_in_the_log_that_the_row_names(bench: Bench) -> None:
    source = model("print('progress', flush=True)\nraise ValueError('first\\nsecond')")
    with open(bench.judge(source).log) as file:
        log = file.read()
    assert "progress" in log
    assert "second" in log
    assert "in forward" in log


# --- what claims more than it did ---------------------------------------------------------------


def test_stale_outputs_in_timed_calls_are_rejected(bench: Bench) -> None:
    """Right while it is checked, and from then on the first answer again."""
    source = model(
        "out = ((x - y) ** 2).mean(dim=1)\n"
        "timed = any(frame.function == 'unit' for frame in inspect.stack(0))\n"
        "self.kept = self.kept if timed else out\n"
        "return self.kept",
        init="self.kept = None",
        before="import inspect",
    )
    row = bench.judge(source)
    is_row(row, Status.REJECTED, Phase.AUDIT, r"a timed call \(forward\) is wrong: output")
    assert row.modes["forward"].solution_ms is not None


def test_a_stale_gradient_in_timed_calls_is_rejected(bench: Bench) -> None:
    timed = "any(frame.function == 'unit' for frame in inspect.stack(0))"
    source = function(f"g = (1 if {timed} else grad[:, None]) * both; return g, -g")
    source = source.replace("import torch", "import inspect\nimport torch", 1)
    row = bench.judge(source, modes=("backward",))
    is_row(row, Status.REJECTED, Phase.AUDIT, r"a timed call \(backward\) is wrong: grad x")


def test_a_clock_that_runs_fast_inside_the_harness_is_rejected(bench: Bench) -> None:
    before = (
        "import sys\nmeters = sys.modules['harness.worker.meters']\nreal = meters._clock\n"
        "meters._clock = lambda: 1000 * real()"
    )
    row = bench.judge(model(RIGHT, before=before))
    is_row(row, Status.REJECTED, Phase.AUDIT, "claimed for an epoch that took|beside the solution")


def test_a_clock_that_stands_still_inside_the_harness_is_rejected(bench: Bench) -> None:
    before = "import sys\nsys.modules['harness.worker.meters']._clock = lambda: 0"
    row = bench.judge(model(RIGHT, before=before))
    is_row(row, Status.REJECTED, Phase.TIME, "does not hold: 0.* is no time")


def test_a_reference_that_is_slowed_down_is_rejected(bench: Bench) -> None:
    before = (
        "import sys, time\n"
        "def slow(self, x, y):\n    time.sleep(0.001)\n    return ((x - y) ** 2).mean(dim=1)\n"
    )
    slowing = "sys.modules['problem_under_test'].Model.forward = slow"
    row = bench.judge(model(RIGHT, before=before, init=slowing), real_baseline=True)
    is_row(row, Status.REJECTED, Phase.AUDIT, r"the reference took .* ms beside the solution")


def disturbed(timing: Timing) -> Timing:
    """As where others have kept the cores busy: a call of the reference took longer."""
    blocks = (replace(timing.epochs[0].blocks[0], reference_ms=(1.0, 1.0)),)
    return replace(timing, epochs=(Epoch(blocks=blocks, wall_s=1e9),) * len(timing.epochs))


@pytest.mark.parametrize(("times", "status"), [(1, Status.PASS), (2, Status.REJECTED)])
def test_on_a_cpu_a_claim_in_doubt_is_timed_once_more(
    bench: Bench, times: int, status: Status
) -> None:
    found: list[Timing] = []

    def time_mode(*arguments: Any, **options: Any) -> Timing:
        found.append(measure.time_mode(*arguments, **options))
        return disturbed(found[-1]) if len(found) <= times else found[-1]

    with mock.patch.object(performance, "time_mode", time_mode):
        row = bench.judge(model(RIGHT), real_baseline=True)
    assert row.verdict.status is status, row.verdict
    assert len(found) == 2


#: Reads the judge's orders itself and answers in the worker's place.
FORGER = """
import gc
from harness.shared.channel import Channel

channel = next(o for o in gc.get_objects() if isinstance(o, Channel))
send, receive, last = channel.send, channel.receive, {}

def listen(**options):
    message = receive(**options)
    last["order"] = message.body
    return message

def forge(body, trees=None, ipc=False):
    order = last.get("order", {})
    if order.get("order") != "play":
        return send(body, trees, ipc=ipc)
    send(FORGED)

channel.receive, channel.send = listen, forge
"""
FORGED = {
    "no answer to the order": "{'nonce': 'x', 'answer': {}}",
    "an answer without a tree": "{'nonce': order['nonce'], 'answer': {}}",
    "a fault that is none": "{'nonce': order['nonce'], 'fault': 5}",
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_answer_is_rejected(rows: Rows, kind: str) -> None:
    is_row(rows(kind), Status.REJECTED, Phase.FORWARD, "the answer does not hold")


def test_a_reveal_that_was_wrong_stays_wrong(bench: Bench) -> None:
    """The judge looks at outputs of several epochs: a right one later does not clear the first."""
    problem = bench.problem(TINY)
    case = bench.case(problem)
    judged = checks.Judged(
        worker=mock.Mock(),
        settings=case.context.settings,
        reference=case.stages[-1].reference,
        survey=case.survey,
        byte_limit=1 << 20,
    )
    from harness.shared.channel import Message
    from harness.shared.problem import Draw

    right = judged.reference.call(Draw(seed=5)).output
    for output in (right + 1, right):
        judged.worker.ask.return_value = Message(  # type: ignore[attr-defined]
            body={}, trees={"output": output.clone()}
        )
        judged.reveal(judged.worker, "forward", Draw(seed=5), 0, 0, 0)
    assert judged.wrong_reveal is not None


# --- who did the work ---------------------------------------------------------------------------

BUILD = f"""
from torch.utils.cpp_extension import load_inline

SOURCE = r'''{SCALE_SOURCE}'''
extension = load_inline(name="scale", cpp_sources=SOURCE, no_implicit_headers=True)
"""
SWALLOWED = (
    BUILD.replace("#include <Python.h>", "#include <Python.h>\n  int broken = ;").replace(
        "extension = load", "try:\n    extension = load"
    )
    + "except Exception:\n    extension = None\n"
)
NATIVE = (
    "mean = ((x - y) ** 2).mean(dim=1)\nout = torch.empty_like(mean)\n"
    "extension.scale(mean.data_ptr(), out.data_ptr(), len(out), 1.0)\nreturn out"
)
PROFILED = {"profile": True, "require_backward": False}


def test_a_kernel_that_is_built_and_called_passes_also_where_own_ones_are_asked_for(
    bench: Bench,
) -> None:
    often = NATIVE.replace("extension.scale", "for _ in range(50): extension.scale")
    row = bench.judge(model(often, before=BUILD), require_own_kernels=True, **PROFILED)
    is_row(row, Status.PASS, Phase.DONE, "^$")
    assert row.build_s is not None
    assert row.build_s > 0
    assert "library_only" not in row.flags


def test_library_calls_alone_are_labelled_and_fail_where_own_kernels_are_asked_for(
    bench: Bench,
) -> None:
    assert "library_only" in bench.judge(model(RIGHT), **PROFILED).flags
    row = bench.judge(model(RIGHT), require_own_kernels=True, **PROFILED)
    is_row(row, Status.NOT_EXERCISED, Phase.PROFILE, "no kernel of its own ran")


def test_a_token_of_a_kernel_beside_library_calls_does_not_make_them_its_own(bench: Bench) -> None:
    before = BUILD + "\n\ndef tokens(x):\n    return [extension.scale(0, 0, 0, 1.0)]"
    body = f"tokens(x)\nfor _ in range(200):\n    (x - y).square().mean(dim=1)\n{RIGHT}"
    row = bench.judge(model(body, before=before), **PROFILED)
    assert "library_only" in row.flags
    assert row.own_share is not None
    assert row.own_share < 0.01
    row = bench.judge(model(body, before=before), require_own_kernels=True, **PROFILED)
    is_row(row, Status.NOT_EXERCISED, Phase.PROFILE, r"took 0\.\d+% of the time")


def test_a_kernel_that_is_built_and_never_called_is_not_exercised(bench: Bench) -> None:
    row = bench.judge(model(RIGHT, before=BUILD), **PROFILED)
    is_row(row, Status.NOT_EXERCISED, Phase.PROFILE, "nothing of what it built ran")
    assert row.modes["forward"].solution_ms is not None


def test_a_build_failure_that_is_swallowed_is_not_exercised_and_told(bench: Bench) -> None:
    row = bench.judge(model(RIGHT, before=SWALLOWED), **PROFILED)
    is_row(row, Status.NOT_EXERCISED, Phase.PROFILE, r"swallowed.*\.py:\d+ .*int broken = ;")


def test_a_refused_call_that_is_swallowed_is_not_exercised_and_told(bench: Bench) -> None:
    source = SWALLOWED.replace("cpp_sources=SOURCE", "functions=['int f(int)']")
    row = bench.judge(model(RIGHT, before=source), **PROFILED)
    is_row(row, Status.NOT_EXERCISED, Phase.PROFILE, "swallowed.* has no cpp_sources")


def test_a_build_failure_is_a_compile_error_at_the_solutions_line(bench: Bench) -> None:
    broken = BUILD.replace("#include <Python.h>", "#include <Python.h>\n  int broken = ;")
    source = model(RIGHT, before=broken)
    line = source.splitlines().index("  int broken = ;") + 1
    row = bench.judge(source)
    is_row(row, Status.COMPILE_ERROR, Phase.BUILD, rf"^solution\d+\.py:{line} .*error: expected")
    with open(row.log) as file:
        assert "ninja" in file.read()


def test_a_solution_is_not_profiled_where_that_is_switched_off(bench: Bench) -> None:
    row = bench.judge(model(RIGHT, before=BUILD), require_backward=False)
    is_row(row, Status.PASS, Phase.DONE, "^$")
    assert row.own_share is None


# --- what is not judged -------------------------------------------------------------------------


def test_a_solution_for_another_device_is_skipped_unread(bench: Bench) -> None:
    source = model(RIGHT, before="DEVICES = ('cuda',)\nraise SystemError")
    row = bench.judge(source)
    is_row(row, Status.SKIPPED, Phase.FIND, "needs a CUDA device; this run is on CPU")
    assert row.log == ""
    assert row.verdict.status.fine


REFERENCES = {
    "get_inputs raises": (
        TINY.replace("return [torch.randn(ROWS", "return [torch.randn(-ROWS"),
        r"p.py:14: get_inputs failed: RuntimeError",
    ),
    "get_inputs returns nothing": (
        TINY.replace("return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]", "pass"),
        "get_inputs",
    ),
    "Model cannot be made": (
        TINY.replace("    def forward", "    def __init__(self, n): pass\n\n    def forward"),
        "p.py: Model failed: TypeError",
    ),
    "Model.forward raises": (
        TINY.replace("return ((x", "raise KeyError('x')\n        return ((x"),
        r"p.py:10: Model.forward failed: KeyError: 'x'",
    ),
    "Model.forward takes other arguments": (
        TINY.replace("forward(self, x, y)", "forward(self, x)"),
        "Model.forward failed: TypeError",
    ),
    "no memory for the model": (
        TINY.replace(
            "    def forward",
            "    def __init__(self): raise torch.OutOfMemoryError('x')\n\n    def forward",
        ),
        "does not fit the device at size full",
    ),
    "no memory for the call": (
        TINY.replace("return ((x", "raise torch.OutOfMemoryError('x')\n        return ((x"),
        "does not fit the device at size full",
    ),
    "Model returns nothing": (TINY.replace("return ((x", "((x"), "returns no tensor"),
    "Model returns what cannot be compared": (
        TINY.replace(".mean(dim=1)", ".to_sparse()"),
        "not dense",
    ),
    "Model returns keys that are one key as text": (
        TINY.replace("return ((x", "return {1: x, '1': y}\n        return ((x"),
        "Model.forward failed: CannotTravel: two keys of a dict are '1'",
    ),
    "inputs have keys that are one key as text": (
        TINY.replace("return [", "return [{1: torch.ones(3), '1': torch.ones(3)}, "),
        r"two inputs are x\['1'\]: keys of a dict must differ",
    ),
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_a_reference_at_fault_is_told_before_any_solution_runs(bench: Bench, kind: str) -> None:
    source, message = REFERENCES[kind]
    with pytest.raises(ProblemError, match=message):
        bench.case(bench.problem(source, "p"))


def test_a_reference_that_cannot_be_measured_is_the_problems_fault(bench: Bench) -> None:
    failure = baseline.BaselineError("no answer within 1 s")
    with (
        mock.patch.object(baseline, "measure", side_effect=failure),
        pytest.raises(ProblemError, match="could not be measured: no answer within 1 s"),
    ):
        open_case(bench.context(), bench.problem(TINY), "full")


ODD = TINY + "\nSIZES = {'odd': {%s}}\n"
ODD_FAULTS = {
    "an odd size that sets a missing constant": (ODD % "'ROW': 3", "never assigns"),
    "an odd size whose inputs fail": (ODD % "'ROWS': -3", "get_inputs failed"),
    "an odd size at which the reference fails": (
        (ODD % "'ROWS': 3").replace("return ((x", "assert len(x) == 8\n        return ((x"),
        "Model.forward failed: AssertionError",
    ),
}


@pytest.mark.parametrize("kind", ODD_FAULTS)
def test_a_fault_at_the_odd_size_is_told_before_any_solution_runs(bench: Bench, kind: str) -> None:
    source, message = ODD_FAULTS[kind]
    with pytest.raises(ProblemError, match=message):
        bench.case(bench.problem(source, "p"))


def test_a_variation_that_the_reference_does_not_take_is_left_out(bench: Bench) -> None:
    source = TINY.replace("return ((x", "assert x.abs().max() < 99\n        return ((x").replace(
        "[torch.randn(ROWS, COLUMNS)", "[30 * torch.rand(ROWS, COLUMNS)"
    )
    row = bench.judge(model(RIGHT), source, trials=2, variations=("as_given", "heavy_tailed"))
    is_row(row, Status.PASS, Phase.DONE, "^$")
    assert "left_out:heavy_tailed" in row.flags


def test_the_odd_size_is_checked_besides_the_graded_one(bench: Bench) -> None:
    source = model("return ((x - y) ** 2).sum(dim=1) / 64")
    is_row(bench.judge(source, ODD % "'COLUMNS': 64"), Status.PASS, Phase.DONE, "^$")
    row = bench.judge(source, ODD % "'COLUMNS': 63")
    is_row(row, Status.WRONG_OUTPUT, Phase.FORWARD, FACTOR)


def test_every_variation_that_settings_allow_can_be_drawn(bench: Bench) -> None:
    from harness.setting_rules import VARIATIONS

    row = bench.judge(model(RIGHT), trials=len(VARIATIONS), variations=VARIATIONS)
    is_row(row, Status.PASS, Phase.DONE, "^$")


@pytest.mark.parametrize(
    ("broken", "status"), [(True, Status.HARNESS_ERROR), (False, Status.RUNTIME_ERROR)]
)
def test_a_fault_of_the_machine_is_a_harness_error_if_the_judge_finds_it_too(
    bench: Bench, broken: bool, status: Status
) -> None:
    fault = WorkerFault({"kind": "machine", "message": "the device cannot be used"})
    with (
        mock.patch.object(evaluate, "load", side_effect=fault),
        mock.patch.object(verdicts, "broken", return_value=broken),
    ):
        row = bench.judge(model(RIGHT))
    is_row(row, status, Phase.LOAD, "the device cannot be used")


@pytest.mark.parametrize("free", [0, 1 << 40])
def test_a_machine_whose_disk_is_full_is_broken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    usage = shutil.disk_usage(bench.folder)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    assert verdicts.broken(bench.context()) is (free == 0)


def test_no_memory_for_the_judge_is_a_harness_error(bench: Bench) -> None:
    error = torch.OutOfMemoryError("x")
    with mock.patch.object(checks.Judged, "_try", side_effect=error):
        row = bench.judge(model(RIGHT))
    is_row(row, Status.HARNESS_ERROR, Phase.FORWARD, "use a smaller --size")


def test_a_baseline_that_cannot_be_measured_again_is_a_harness_error(bench: Bench) -> None:
    error: Any = baseline.BaselineError("gone")
    with mock.patch.object(performance, "_on_current_baseline", side_effect=error):
        row = bench.judge(model(RIGHT))
    is_row(row, Status.HARNESS_ERROR, Phase.AUDIT, "measured again: gone")


# --- building alone -----------------------------------------------------------------------------


def test_building_alone_runs_nothing_and_says_how_much_was_built(bench: Bench) -> None:
    source = model("raise SystemError", before=BUILD, init="raise SystemError")
    row = bench.build(source, bench.problem(TINY))
    is_row(row, Status.BUILT, Phase.BUILD, r"1 extension built")
    assert row.modes == {}


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("class Model: pass", Status.CONTRACT_ERROR),
        (model(RIGHT, before="1 / 0"), Status.LOAD_ERROR),
        (
            model(RIGHT, before=BUILD.replace("return nullptr", "return nulptr")),
            Status.COMPILE_ERROR,
        ),
    ],
    ids=["no ModelNew", "raises", "does not compile"],
)
def test_building_alone_tells_what_cannot_be_built(
    bench: Bench, source: str, status: Status
) -> None:
    assert bench.build(source, bench.problem(TINY)).verdict.status is status


@pytest.mark.parametrize("doubt", ["in_doubt", "close"])
def test_the_reference_is_measured_again_with_nothing_of_the_solution_alive(
    bench: Bench, tmp_path: Path, doubt: str
) -> None:
    note, alive = tmp_path / "pid", []

    def again(context: Context, subject: Subject, known: Baseline, mode: str) -> Baseline:
        alive.append(psutil.pid_exists(int(note.read_text())))
        return known

    with (
        mock.patch.object(audit, doubt, return_value=True),
        mock.patch.object(baseline, "measure_again", again),
    ):
        row = bench.judge(SLOW_TO_END.format(note=str(note)))
    assert row.verdict.status is Status.PASS, row.verdict
    assert alive == [False]


def test_a_note_of_a_worker_is_shown_as_text(bench: Bench) -> None:
    before = (
        "import sys\norders = sys.modules['harness.worker.session'].ORDERS\n"
        "orders['load'] = lambda *_, load=orders['load']: "
        "(load(*_)[0] | {'note': '\\x1b[2Jpass'}, {})"
    )
    row = bench.judge(model(RIGHT, before=before))
    assert row.verdict.message == r"\x1b[2Jpass"


SPANS = (math.nan, math.inf, -1.0, 1e300, 10**400, "long", None)


@pytest.mark.parametrize("seconds", SPANS)
def test_a_build_takes_a_span_of_time(seconds: Any) -> None:
    with pytest.raises(WorkerLied):
        Findings().note_builds([{"name": "b", "seconds": seconds}])


RESULT = {
    "output": torch.zeros(2),
    "grads": {"x": None, "y": torch.zeros(2)},
    "carries": {"output": True},
    "inputs": {"x": torch.zeros(2)},
    "grad_outputs": {},
    "buffers": {},
}


def played(**changes: Any) -> Played:
    trees = {"results": [RESULT | changes], "later": [], "state": {"b": torch.zeros(1)}}
    return Played.from_trees(trees, 1)


@pytest.mark.parametrize("key", ["grads", "carries", "inputs", "grad_outputs", "buffers"])
@pytest.mark.parametrize("value", [5, [1.0], {"x": [torch.zeros(2)]}, {"x": "text"}, {"x": 1.0}])
def test_what_came_of_a_trial_is_of_the_kinds_that_there_are(key: str, value: Any) -> None:
    assert played().results[0].carries == {"output": True}
    with pytest.raises(WorkerLied), claimed():
        played(**{key: value})
    with pytest.raises(WorkerLied), claimed():
        played(carries={"output": torch.zeros(2)})  # neither true nor false


def test_an_error_of_the_harness_ends_one_evaluation_only(bench: Bench) -> None:
    with mock.patch.object(checks.Judged, "_try", side_effect=OverflowError("too large")):
        row = bench.judge(model(RIGHT))
    is_row(row, Status.HARNESS_ERROR, Phase.FORWARD, r"the harness failed.*too large")
    assert "Traceback" in Path(row.log).read_text()
    is_row(bench.judge(model(RIGHT)), Status.PASS, Phase.DONE, "")
