"""`lint`: a fit problem catches every mutant; an unfit one is refused, and it is said why."""

from __future__ import annotations

import gc
import io
import random
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from rich.console import Console
from scipy import stats

from harness import cli, fit
from harness.commands import fitness
from harness.commands.fitness import Fitness
from harness.config import Settings
from harness.judge.fitness import mutants
from harness.judge.fitness.lint import AS_GIVEN_TRIALS, MORE_TRIALS, lint
from harness.judge.fitness.outcomes import (
    CREDIBLE_CHANCE,
    Finding,
    Outcome,
    Tally,
    chance_of_passing,
)
from harness.judge.reference import Reference
from harness.shared.problem import Instance

PROBLEMS = Path(__file__).resolve().parents[2] / "mutants" / "problems"

PROBLEM = """
import torch

ROWS = 24
COLUMNS = 40
{extra}


class Model(torch.nn.Module):
    def forward(self, x, y):
        {forward}


def get_inputs():
    return [{inputs}]
"""
INIT = """def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(40))

    """
DEEP = 100
FACTORS = f"self.w = torch.nn.ParameterList(torch.rand(40) + 1 for _ in range({DEEP}))"
NORMAL = "torch.randn(ROWS, COLUMNS) * (0.5 + torch.rand(())), torch.randn(ROWS, COLUMNS)"


def problem(forward: str, *, inputs: str = NORMAL, extra: str = "") -> str:
    return PROBLEM.format(forward=forward, inputs=inputs, extra=extra)


def findings(source: str, dtype: torch.dtype = torch.float32, **changes: Any) -> list[Finding]:
    instance = Instance(
        source=source, path="p.py", size="full", dtype=dtype, device=torch.device("cpu")
    )
    name = str(dtype).removeprefix("torch.")
    return lint(Reference(instance, 1), Settings(device="cpu", dtype=name, **changes))


def test_a_collection_of_a_pass_leaves_alone_what_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(problem("return x + y"))
    frozen: list[int] = []

    def lint(*_: Any) -> list[Finding]:
        frozen.append(gc.get_freeze_count())
        return []

    with mock.patch("harness.judge.fitness.lint.lint", lint):
        list(fitness.examine(["p", "p"], tmp_path, Settings(device="cpu")))
    assert [count > 100_000 for count in frozen] == [True, True]
    assert gc.get_freeze_count() == 0


def looks_of(source: str, **changes: Any) -> dict[tuple[str, str], int]:
    """Looks by (mutant, part)."""
    seen: dict[tuple[str, str], int] = {}

    def note(tally: Tally) -> Finding:
        seen[tally.mutant.name, tally.part] = tally.looks
        return finding(tally)

    finding = Tally.finding
    with mock.patch.object(Tally, "finding", note):
        findings(source, **changes)
    return seen


def with_outcome(found: list[Finding], outcome: Outcome) -> set[str]:
    return {f"{f.mutant} / {f.part}" for f in found if f.outcome is outcome}


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("return x.gather(1, y % 8)", "torch.randn(24, 8), torch.randint(8, 90, (24, 8))"),
        ("return x * y", "torch.randn(24, 40), torch.randn(1, 40).expand(24, 40)"),
        ("return (x * y)[x > 0]", NORMAL),
        ("return torch.fft.rfft(x * y).conj()", NORMAL),
        ("return x * y, (9 * x).abs().to(torch.uint16)", NORMAL),
    ],
    ids=["index", "expanded", "shape by values", "conjugate", "unsigned"],
)
def test_what_a_mutant_cannot_do_is_no_fault_of_the_problem(forward: str, inputs: str) -> None:
    found = findings(problem(forward, inputs=inputs))
    assert len(found) > 10
    assert "zeros / output" in {f"{f.mutant} / {f.part}".replace("[0]", "") for f in found}
    assert not with_outcome(found, Outcome.PASSES)


def test_a_skipped_operation_leaves_the_model_as_it_was() -> None:
    source = problem("self.kept = 2 * self.weight; return x * self.kept + y.sum()")
    source = source.replace("def forward(self, x, y):", INIT + "def forward(self, x, y):")
    names = {f.mutant for f in findings(source)}
    assert "operation 1 (mul) skipped" in names


# --- what is fit --------------------------------------------------------------------------------

FIT = ("softmax", "cross_entropy", "mse", "moments", "linear", "layer_norm", "batch_norm", "views")


@pytest.mark.parametrize("name", FIT)
def test_every_mutant_of_a_fit_problem_is_caught_or_as_accurate(name: str) -> None:
    """Or missed on so few seeds that an evaluation lets it pass by a chance below 1 in 1000."""
    found = findings((PROBLEMS / f"{name}.py").read_text())
    fine = (Outcome.CAUGHT, Outcome.ACCURATE, Outcome.SELDOM)
    assert not [f for f in found if f.outcome not in fine]
    assert {f.mutant for f in found} >= {
        "zeros",
        "the mean over other seeds",
        "the result for another seed",
        "1.01 times the result",
        "gradients for an output gradient of ones",
        "half of the data",
        "float16 inside",
        "bfloat16 inside",
    }


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_problem_may_be_fit_in_a_narrow_type(dtype: torch.dtype) -> None:
    found = findings((PROBLEMS / "softmax.py").read_text(), dtype)
    assert {f.outcome for f in found} == {Outcome.CAUGHT}


def test_what_is_only_precision_averages_out_in_a_mean_and_is_no_fault() -> None:
    big = problem("return torch.mean((x - y) ** 2)").replace("ROWS = 24", "ROWS = 9000")
    found = findings(big)
    assert "float16 inside / output" in with_outcome(found, Outcome.ACCURATE)
    assert not with_outcome(found, Outcome.PASSES)


# --- what is not --------------------------------------------------------------------------------


def test_an_output_that_is_always_zero_is_unfit() -> None:
    found = findings(problem("return (x - x) * y"))
    passing = with_outcome(found, Outcome.PASSES)
    assert {
        "zeros / output",
        "the mean over other seeds / output",
        "the result for another seed / output",
        "input x unread / any output",
        "half of the data / any output",
    } <= passing


def test_a_fixed_tolerance_above_the_output_is_unfit_and_the_numbers_say_why() -> None:
    forward = "return 1e-6 * torch.tanh(x - y)"
    assert not with_outcome(findings(problem(forward)), Outcome.PASSES)
    found = findings(problem(forward, extra="TOLERANCES = {'float32': (1e-4, 1e-2)}"))
    (zeros,) = [f for f in found if f.mutant == "zeros" and f.part == "output"]
    assert zeros.outcome is Outcome.PASSES
    assert zeros.size is not None
    assert zeros.size < 1.1e-6
    assert zeros.error == pytest.approx(zeros.size)


def test_a_redundant_operation_is_named() -> None:
    found = findings(problem("return torch.relu((x - y) ** 2)"))
    assert with_outcome(found, Outcome.PASSES) == {"operation 3 (relu) skipped / any output"}


def test_an_operation_in_place_is_skipped_before_it_changes_anything() -> None:
    found = findings(problem("z = x - y\n        z.mul_(x)\n        return z"))
    assert "operation 2 (mul_) skipped / any output" in with_outcome(found, Outcome.CAUGHT)
    found = findings(problem("z = (x - y) ** 2\n        z.relu_()\n        return z"))
    assert with_outcome(found, Outcome.PASSES) == {"operation 3 (relu_) skipped / any output"}


def test_an_input_that_plays_no_part_is_named() -> None:
    found = findings((PROBLEMS / "logarithm.py").read_text())
    assert with_outcome(found, Outcome.PASSES) == {"input unused unread / any output"}


def test_what_only_varied_inputs_catch_is_in_doubt() -> None:
    found = findings((PROBLEMS / "clamp.py").read_text())
    assert with_outcome(found, Outcome.VARIED) == {"operation 1 (relu) skipped / any output"}
    assert not with_outcome(found, Outcome.PASSES)


def test_a_mean_over_like_values_lets_a_constant_pass_on_inputs_as_given() -> None:
    like = "1 + 1e-6 * torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)"
    found = findings(problem("return x.mean() + 0 * y.sum()", inputs=like))
    assert "the mean over other seeds / output" in with_outcome(found, Outcome.VARIED)
    assert "input y unread / any output" in with_outcome(found, Outcome.PASSES)


def test_a_parameter_without_effect_is_named() -> None:
    source = problem("return (x - y) * (1 + 0 * self.unused)").replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n"
        "        self.unused = torch.nn.Parameter(torch.ones(1))\n\n    def forward",
    )
    passing = with_outcome(findings(source), Outcome.PASSES)
    assert "parameter unused unread / any output" in passing


def test_of_a_deep_model_some_parameters_and_operations_are_tried_and_not_the_first_alone() -> None:
    made = INIT.replace("self.weight = torch.nn.Parameter(torch.randn(40))", FACTORS)
    source = problem("for w in self.w: x = x * w\n        return x + y")
    source = source.replace("def forward", f"{made}def forward")
    names = {found.mutant for found in findings(source, trials=1)}
    parameters = sorted(int(re.findall(r"w\.(\d+) unread", n)[0]) for n in names if "w." in n)
    operations = sorted(int(re.findall(r"operation (\d+)", n)[0]) for n in names if "oper" in n)
    assert len(parameters) == mutants.MOST_PARAMETERS
    assert len(operations) == mutants.MOST_OPERATIONS
    assert (parameters[0], parameters[-1]) == (0, DEEP - 1)
    assert (operations[0], operations[-1]) == (1, DEEP + 1)


def test_a_bias_that_is_zero_at_the_start_is_no_fault() -> None:
    found = findings((PROBLEMS / "linear.py").read_text())
    (bias,) = [f for f in found if f.mutant == "parameter bias unread"]
    assert bias.outcome is Outcome.CAUGHT


def test_a_gradient_that_is_zero_but_for_rounding_is_in_doubt() -> None:
    source = problem("return torch.nn.functional.normalize(x - y + self.shift, dim=0)").replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n"
        "        self.shift = torch.nn.Parameter(torch.zeros(COLUMNS))\n\n    def forward",
    )
    source = source.replace(
        "torch.nn.functional.normalize(x - y + self.shift, dim=0)",
        "torch.nn.functional.batch_norm(x - y + self.shift, None, None, training=True)",
    )
    noise = with_outcome(findings(source), Outcome.NOISE)
    assert "zeros / grad shift" in noise


# --- what hangs on the seed ---------------------------------------------------------------------

#: `threshold` keeps the first value of y where that is above LIMIT; skipped, it always does.
CHANCY = """return x * (
            y + torch.nn.functional.threshold(y.flatten()[0], LIMIT, 3.0)
        )"""
SKIPPED = "operation 1 (threshold) skipped"


@pytest.mark.parametrize(
    ("limit", "seed", "outcome", "caught", "trials"),
    [
        ("-float('inf')", 0, Outcome.PASSES, range(1), 4),
        ("-2.128", 0, Outcome.PASSES, range(1), 4),  # passes on 59 seeds in 60
        ("0.0", 0, Outcome.SOMETIMES, range(8, 25), 32),  # on half of them
        ("2.128", 39, Outcome.SELDOM, range(30, 32), 32),  # on one in 60
        ("2.128", 0, Outcome.CAUGHT, range(4, 5), 4),
        ("float('inf')", 0, Outcome.CAUGHT, range(4, 5), 4),
    ],
)
def test_a_mutant_that_seeds_decide_about_is_told_by_its_chance_in_an_evaluation(
    limit: str,
    seed: int,
    outcome: Outcome,
    caught: range,
    trials: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("secrets.randbits", random.Random(seed).getrandbits)
    found = findings(problem(CHANCY, extra=f"LIMIT = {limit}"))
    (skipped,) = [f for f in found if f.mutant == SKIPPED]
    assert (skipped.outcome, skipped.trials) == (outcome, trials)
    assert skipped.caught in caught
    assert (skipped.chance is not None) is (trials > 4)
    assert {f.outcome for f in found if f.mutant != SKIPPED} == {Outcome.CAUGHT}
    fitness = Fitness(problem="p", size="full", findings=tuple(found))
    assert fitness.fit(strict=True) is (outcome in (Outcome.CAUGHT, Outcome.SELDOM))
    assert fitness.fit(strict=False) is (outcome is not Outcome.PASSES)


@pytest.mark.parametrize("looks", [3, 5], ids=["a gradient", "an output"])
def test_so_many_seeds_tell_one_in_60_from_one_in_2(looks: int) -> None:
    trials = AS_GIVEN_TRIALS + MORE_TRIALS
    chances = [chance_of_passing(missed, trials, looks) for missed in range(trials + 1)]
    assert chances == sorted(chances)
    assert all(chances[m] > (m / trials) ** looks for m in range(trials // 2))
    most = max(m for m, chance in enumerate(chances) if chance < CREDIBLE_CHANCE)
    assert most >= 1
    assert stats.binom.cdf(most, trials, 1 / 2) < CREDIBLE_CHANCE
    assert stats.binom.sf(most, trials, 1 / 60) < 0.11  # of those tried again, not of all


def test_the_chance_of_one_look_is_laplaces_and_no_look_catches_nothing() -> None:
    assert chance_of_passing(0, 0, 1) == 1 / 2
    assert chance_of_passing(3, 10, 1) == 4 / 12
    assert chance_of_passing(1, 32, 2) == pytest.approx(2 / 34 * 3 / 35)
    assert chance_of_passing(0, 32, 0) == 1


@pytest.mark.parametrize(
    ("changes", "output", "gradient"),
    [
        ({}, 5, 3),  # two phases and the modes that return it
        ({"trials": 8}, 7, 4),  # of 7 variations
        ({"variations": ("as_given",)}, 13, 7),
        ({"modes": ()}, 2, 1),
        ({"quick": True, "modes": ("forward",)}, 2, 0),
    ],
    ids=str,
)
def test_looks_are_those_that_an_evaluation_takes_at_inputs_as_given(
    changes: dict[str, Any], output: int, gradient: int
) -> None:
    source = (PROBLEMS / "linear.py").read_text()
    looks = looks_of(source, **changes)
    assert looks["zeros", "output"] == output
    assert looks["zeros", "grad x"] == gradient
    assert looks["parameter weight unread", "any output"] == (2 if gradient else 1)


def test_timed_calls_whose_outputs_are_not_compared_are_no_looks() -> None:
    source = problem("return (x - y) * torch.rand(())")
    assert looks_of(source)["zeros", "output"] == 2


# --- the command --------------------------------------------------------------------------------


def command(tmp_path: Path, source: str, *arguments: str) -> int:
    (tmp_path / "one.py").write_text(source)
    folder = str(tmp_path)
    return cli.main(["lint", "--problem", "one", "--problem-dir", folder, "--device", "cpu",
                     *arguments])  # fmt: skip


def test_a_fit_problem_is_status_0_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, (PROBLEMS / "moments.py").read_text(), "--strict") == 0
    assert "one (full): fit: of 21 mutants 21 caught" in capsys.readouterr().out


def test_an_unfit_problem_is_status_1_with_a_table_that_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, problem("return (x - x) * y")) == 1
    out = capsys.readouterr().out
    assert "one (full): NOT FIT" in out
    assert "zeros" in out
    assert "passes: never caught" in out


def test_doubt_is_refused_only_under_strict(tmp_path: Path) -> None:
    source = (PROBLEMS / "clamp.py").read_text()
    assert command(tmp_path, source) == 0
    assert command(tmp_path, source, "--strict") == 1


def test_a_problem_that_fails_is_not_fit_and_the_fault_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, problem("raise KeyError('x')")) == 1
    assert "NOT FIT: " in (out := capsys.readouterr().out)
    assert "KeyError" in out


@pytest.mark.parametrize("size", ["fit", "ROWS=16"])
def test_a_size_may_be_one_that_fits_or_constants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: str
) -> None:
    source = problem("return x - y").replace("ROWS = 24", f"ROWS = {1 << 34}")
    budget = fit.Cost(bytes=20_000, forward_s=1.0)  # 16 rows of two inputs and an output
    with mock.patch("harness.fit.budget_of", return_value=budget):
        assert command(tmp_path, source, "--size", size) == 0
    assert "one (ROWS=16): fit" in capsys.readouterr().out


def test_of_all_problems_one_that_cannot_be_read_is_not_fit_and_ends_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("x = (")
    (tmp_path / "one.py").write_text(problem("return x - y"))
    assert cli.main(["lint", "--all", "--problem-dir", str(tmp_path), "--device", "cpu"]) == 1
    out = capsys.readouterr().out
    assert "broken (auto): NOT FIT" in out
    assert "one (full): fit" in out


def test_of_all_problems_each_is_told_as_soon_as_it_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(problem("return x - y"))
    with mock.patch("harness.judge.fitness.lint.lint", side_effect=[[], KeyboardInterrupt]):
        assert cli.main(["lint", "--all", "--problem-dir", str(tmp_path), "--device", "cpu"]) == 130
    shown = capsys.readouterr()
    assert "a (full): fit" in shown.out
    assert shown.err == "interrupted\n"  # there are no rows to keep


def test_an_unknown_problem_or_size_is_a_wrong_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, problem("return x - y"), "--size", "huge") == 2
    assert "it has full" in capsys.readouterr().err
    assert cli.main(["lint", "--problem", "none", "--problem-dir", str(tmp_path)]) == 2


def test_words_of_the_table_are_whole_in_80_columns() -> None:
    found = Finding(
        mutant="input predictions unread", part="grad predictions", outcome=Outcome.SELDOM,
        caught=30, trials=32, error=7.1e-6, size=0.16, error_ratio=46.0, chance=4.2e-5,
    )  # fmt: skip
    shown = fitness.screen(Fitness(problem="p", size="s", findings=(found,)), strict=False)
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(shown)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    for word in ("predictions", "unread", "seldom passes", "30 of 32", "4.2e-05", "7.1e-06"):
        assert word in text
