"""From a request to rows: what is refused before any work, what is resumed, where rows go."""

from __future__ import annotations

import dataclasses
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from support import HONEST, QUICK, TINY, Bench

from harness import fit, results, run
from harness.config import Settings
from harness.errors import MachineError, RequestError
from harness.judge import device
from harness.judge.context import Context
from harness.judge.process import toolchain
from harness.judge.subject import Subject
from harness.judge.timing import baseline
from harness.judge.timing.baseline import Baseline
from harness.records import Row, Status

BROKEN = "class ModelNew(:\n"  # settled by its text alone: no worker is needed
WRONG = HONEST.replace("mean(dim=1)", "sum(dim=1)")
SIZED = TINY + "\nSIZES = {'smoke': {'ROWS': 4}, 'wide': {'COLUMNS': 128}}\n"


@dataclass
class Told(run.Silent):
    """An observer that keeps what it is told."""

    begun: list[tuple[str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def begin(self, problem: str, solution: str, size: str) -> None:
        self.begun.append((problem, solution, size))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, done: int, total: int) -> None:
        self.counts.append((done, total))

    def row(self, row: Row) -> None:
        self.rows.append(row)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture(autouse=True)
def no_measuring() -> Iterator[None]:
    with mock.patch.object(baseline, "measure", return_value=Baseline()):
        yield


@pytest.fixture
def request_of(tmp_path: Path) -> Any:
    """A request over a house of `problems` {name: text} and `solutions` {problem/name: text}."""

    def make(
        solutions: dict[str, str], problems: dict[str, str] | None = None, **changes: Any
    ) -> run.Request:
        for name, text in (problems or {"tiny": TINY}).items():
            path = tmp_path / "problems" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "solutions").mkdir(exist_ok=True)
        for name, text in solutions.items():
            path = tmp_path / "solutions" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        settings = {k: changes.pop(k) for k in list(changes) if k in Settings.__dataclass_fields__}
        return run.Request(
            settings=Settings(**(QUICK | settings)),
            problem_dir=tmp_path / "problems",
            solution_dir=tmp_path / "solutions",
            results_dir=tmp_path / "results",
            cache_dir=tmp_path / "cache",
            **changes,
        )

    return make


def statuses(rows: list[Row]) -> list[str]:
    return [row.verdict.status.value for row in rows]


# --- what is evaluated --------------------------------------------------------------------------


def test_every_solution_of_every_problem_gets_a_row_in_order(request_of: Any) -> None:
    told = Told()
    solutions = {"a/one": BROKEN, "a/two": "x = 1", "b/one": "None"}
    rows = run.execute(request_of(solutions, {"a": TINY, "b": TINY}), told)
    assert [(r.problem, r.solution) for r in rows] == [("a", "one"), ("a", "two"), ("b", "one")]
    assert statuses(rows) == ["contract_error"] * 3
    assert told.rows == rows
    assert told.counts == [(1, 3), (2, 3), (3, 3)]
    assert [b[:2] for b in told.begun] == [("a", "one"), ("a", "two"), ("b", "one")]


def test_one_problem_and_one_solution_can_be_named(request_of: Any) -> None:
    solutions = {"a/one": BROKEN, "a/two": BROKEN, "b/one": BROKEN}
    request = request_of(solutions, {"a": TINY, "b": TINY}, problem="a", solution="two")
    assert [(r.problem, r.solution) for r in run.execute(request, Told())] == [("a", "two")]


def test_a_failure_does_not_stop_the_solutions_after_it(request_of: Any) -> None:
    solutions = {
        "tiny/a_broken": BROKEN,
        "tiny/b_raises": "1 / 0\n" + HONEST,
        "tiny/c_wrong": WRONG,
        "tiny/d_right": HONEST,
    }
    told = Told()
    rows = run.execute(request_of(solutions), told)
    assert statuses(rows) == ["contract_error", "load_error", "wrong_output", "pass"]
    assert len({row.run_id for row in rows}) == 1
    assert "check forward: values 1, size full" in told.notes


def test_a_faulty_problem_is_a_reference_error_for_all_of_its_solutions_only(
    request_of: Any,
) -> None:
    problems = {
        "a": TINY.replace("class Model", "class Other"),
        "b": TINY.replace("torch.randn(ROWS", "torch.randn(-ROWS"),
        "c": TINY,
        "d": TINY + "\nSIZES = {'smoke': {'ROWS': 2 ** 3}}\n",
    }
    solutions = {f"{name}/{n}": HONEST for name in "abd" for n in ("x", "y")} | {"c/x": BROKEN}
    rows = run.execute(request_of(solutions, problems), Told())
    found = {(row.problem, row.solution): row.verdict for row in rows}
    assert [v.status for (p, _), v in found.items() if p != "c"] == [Status.REFERENCE_ERROR] * 6
    assert found["c", "x"].status is Status.CONTRACT_ERROR
    assert "a.py:8: the problem file defines no Model" in found["a", "x"].message
    assert "b.py:14: get_inputs failed" in found["b", "y"].message
    assert "d.py:16: SIZES must be literal" in found["d", "x"].message


def test_a_faulty_reference_is_found_once_and_not_once_a_solution(request_of: Any) -> None:
    solutions = {f"tiny/{n}": HONEST for n in ("x", "y", "z")}
    failing = {"tiny": TINY.replace("torch.randn(ROWS", "torch.randn(-ROWS")}
    with mock.patch.object(run, "open_case", wraps=run.open_case) as opened:
        run.execute(request_of(solutions, failing), Told())
    assert opened.call_count == 1


def test_the_reference_is_left_alone_where_no_solution_can_run(request_of: Any) -> None:
    solutions = {"tiny/cuda": "DEVICES = ('cuda',)\n" + HONEST, "tiny/broken": BROKEN}
    with mock.patch.object(run, "open_case", side_effect=AssertionError):
        rows = run.execute(request_of(solutions), Told())
    assert sorted(statuses(rows)) == ["contract_error", "skipped"]


def test_a_run_leaves_nothing_frozen_in_a_process_that_may_be_somebodys_own(
    request_of: Any,
) -> None:
    run.execute(request_of({"a/one": "x = 1"}, {"a": TINY}), Told())
    assert gc.get_freeze_count() == 0


def test_what_the_baseline_has_to_say_is_told(request_of: Any) -> None:
    told = Told()
    noted = Baseline(notes=("torch.compile (default) failed: no compiler",))
    with mock.patch.object(baseline, "measure", return_value=noted):
        run.execute(request_of({"tiny/wrong": WRONG}), told)
    assert told.warnings == ["torch.compile (default) failed: no compiler"]


# --- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size", "wanted"),
    [(SIZED, "auto", "smoke"), (TINY, "auto", "full"), (SIZED, "full", "full")],
    ids=["smoke where there is one", "full where there is none", "the one that is named"],
)
def test_the_size_on_a_cpu(request_of: Any, text: str, size: str, wanted: str) -> None:
    request = request_of({"tiny/x": BROKEN}, {"tiny": text}, size=size)
    assert [row.size for row in run.execute(request, Told())] == [wanted]


def test_an_unknown_size_is_refused_before_any_work(request_of: Any) -> None:
    told = Told()
    request = request_of({"tiny/x": BROKEN}, {"tiny": SIZED}, size="huge")
    with pytest.raises(RequestError, match=r"no size 'huge'; it has full, smoke, wide"):
        run.execute(request, told)
    assert told.begun == []


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": "tinny"}, "no problem 'tinny' .*nearest: tiny"),
        ({"problem": "tiny", "solution": "rigth"}, "no solution 'rigth' .*nearest: right"),
        ({"problem": "bare"}, "problem bare has no solutions in .*bare; add a file there"),
    ],
)
def test_what_is_not_there_is_refused_with_the_nearest(
    request_of: Any, changes: dict[str, str], message: str
) -> None:
    request = request_of({"tiny/right": HONEST}, {"tiny": TINY, "bare": TINY}, **changes)
    with pytest.raises(RequestError, match=message):
        run.execute(request, Told())


def test_nothing_to_evaluate_is_refused(request_of: Any, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no solutions in"):
        run.execute(request_of({}), Told())
    for path in (tmp_path / "problems").iterdir():
        path.unlink()
    with pytest.raises(RequestError, match="no problem files in"):
        run.execute(request_of({}, {"_hidden": TINY}), Told())


def test_a_solutions_name_and_no_problem_is_that_solution_of_every_problem(
    request_of: Any,
) -> None:
    request = request_of({"tiny/x": BROKEN, "tiny/y": BROKEN}, {"tiny": TINY, "other": TINY})
    found = run.find(dataclasses.replace(request, problem=None, solution="x"))
    names = {job.problem.name: [s.name for s in job.solutions] for job in found}
    assert names == {"tiny": ["x"], "other": []}
    with pytest.raises(RequestError, match="no problem has a solution 'z'"):
        run.find(dataclasses.replace(request, problem=None, solution="z"))


@pytest.mark.parametrize("place", ["under a file", "a folder"])
def test_an_output_that_cannot_be_written_is_refused_before_any_work(
    request_of: Any, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "x.csv" if place == "under a file" else tmp_path
    told = Told()
    with pytest.raises((MachineError, RequestError), match=r"another with --output|is a folder"):
        run.execute(request_of({"tiny/x": BROKEN}, output=output), told)
    assert told.begun == []


@pytest.mark.parametrize("place", ["cache", "logs"])
def test_a_cache_or_log_folder_that_cannot_be_written_is_refused_before_any_work(
    request_of: Any, tmp_path: Path, place: str
) -> None:
    (tmp_path / place).write_text("a file where a folder is needed")
    told = Told()
    request = request_of({"tiny/x": HONEST}, output=tmp_path / "x.csv")
    with pytest.raises(MachineError, match=rf"{place}.* cannot be written"):
        run.execute(request, told)
    assert told.begun == []


NO_TOOLS = toolchain.Toolchain(compiler=None, ninja=None, nvcc=None, cuda_home=None)
BUILDS = "from torch.utils.cpp_extension import load_inline\nload_inline(name='x', {})\n" + HONEST


def test_a_missing_compiler_is_refused_before_any_work_where_one_is_needed(
    request_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "find", lambda: NO_TOOLS)
    told = Told()
    with pytest.raises(MachineError, match=r"no C\+\+ compiler"):
        run.execute(request_of({"tiny/x": BUILDS.format("cpp_sources='int a;'")}), told)
    assert told.begun == []


def test_a_missing_compiler_is_no_matter_where_nothing_is_built_here(
    request_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "find", lambda: NO_TOOLS)
    solutions = {
        "tiny/cuda": BUILDS.format("cpp_sources='', cuda_sources='int a;'"),
        "tiny/x": WRONG,
    }
    rows = run.execute(request_of(solutions), Told())
    assert statuses(rows) == ["skipped", "wrong_output"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:7"])
def test_a_device_that_is_not_there_is_refused_before_any_work(request_of: Any, name: str) -> None:
    told = Told()
    with pytest.raises(MachineError, match="CUDA"):
        run.execute(request_of({"tiny/x": BROKEN}, device=name), told)
    assert told.begun == []


# --- rows ---------------------------------------------------------------------------------------


def test_each_row_is_on_disk_before_the_next_solution_begins(request_of: Any) -> None:
    request = request_of({f"tiny/{n}": BROKEN for n in "abc"})
    counts = []

    class Looking(Told):
        def begin(self, problem: str, solution: str, size: str) -> None:
            files = list(request.results_dir.glob("*.csv"))
            counts.append(len(results.read(files[0])) if files else 0)

    run.execute(request, Looking())
    assert counts == [0, 1, 2]


def test_rows_go_to_the_devices_file_or_where_they_are_sent(
    request_of: Any, tmp_path: Path
) -> None:
    rows = run.execute(request_of({"tiny/x": BROKEN}), Told())
    (file,) = (tmp_path / "results").glob("*.csv")
    assert results.plain(results.read(file)) == [rows[0].flat()]
    output = tmp_path / "new folder" / "my.csv"
    run.execute(request_of({"tiny/x": BROKEN}, output=output), Told())
    assert len(results.read(output)) == 1


def test_a_row_names_a_log_only_where_there_is_one(request_of: Any) -> None:
    """What is refused as text is never run: nobody wrote a log."""
    texts = {"tiny/none": "None", "tiny/broken": BROKEN, "tiny/right": HONEST}
    rows = run.execute(request_of({**texts, "tiny/raises": "1 / 0\n" + HONEST}), Told())
    named = {row.solution: row.log for row in rows}
    assert (named["none"], named["broken"]) == ("", "")
    assert all(Path(named[solution]).is_file() for solution in ("right", "raises"))


def test_each_solution_has_a_log_of_its_own(request_of: Any) -> None:
    names = ["a b", "a_b", "a__b", "a\nb", "é" * 100, "é" * 99 + "e"]
    texts = {f"tiny/{name}": f"raise ValueError({name!r})\n{HONEST}" for name in names}
    rows = run.execute(request_of(texts), Told())
    told = {row.solution: Path(row.log).read_text() for row in rows}
    assert sorted(told) == sorted(names)
    for name, log in told.items():
        assert [other for other in names if f"ValueError: {other}\n" in log] == [name]


@pytest.mark.parametrize("name", ["eager", "default"])
def test_a_baseline_has_a_log_of_its_own(bench: Bench, name: str) -> None:
    """Also beside a solution that has its name."""
    context, logs = bench.context(), []

    def worker(self: Context, name: str, **_: Any) -> None:
        logs.append(self.log(name))
        raise InterruptedError

    baselines = baseline._Baselines(
        context=context,
        subject=Subject(problem=bench.problem(TINY), size="full"),
        modes=("forward",),
        flops=False,
        known=False,
    )
    with mock.patch.object(Context, "worker", worker), pytest.raises(InterruptedError):
        baselines.measure(name)
    assert len(logs) == 1
    assert context.log(f"tiny--{name}") not in logs


@pytest.mark.parametrize("output", [None, "elsewhere/my.csv"])
def test_raw_samples_and_logs_are_kept_beside_the_results(
    request_of: Any, tmp_path: Path, output: str | None
) -> None:
    place = tmp_path / (Path(output).parent if output else "results")
    (row,) = run.execute(
        request_of({"tiny/right": HONEST}, output=tmp_path / output if output else None), Told()
    )
    (raw,) = (place / "raw").iterdir()
    assert Path(row.log).is_relative_to(place / "logs")
    assert row.run_id in raw.name
    assert "right" in raw.name


def test_a_second_run_takes_what_is_done_from_the_results(request_of: Any) -> None:
    solutions = {"tiny/a": BROKEN, "tiny/b": WRONG}
    request = request_of(solutions)
    first = run.execute(request, Told())
    told = Told()
    with mock.patch.object(run, "open_case", side_effect=AssertionError):
        again = run.execute(request, told)
    assert [row.flat() for row in again] == [row.flat() for row in first]
    assert sum(note.startswith("taken from") for note in told.notes) == 2
    (file,) = request.results_dir.glob("*.csv")
    assert len(results.read(file)) == 2


def test_a_fresh_run_measures_again(request_of: Any) -> None:
    first = run.execute(request_of({"tiny/a": BROKEN}), Told())
    again = run.execute(request_of({"tiny/a": BROKEN}, fresh=True), Told())
    assert again[0].run_id != first[0].run_id


@pytest.mark.parametrize(
    "changed",
    [
        {"solutions": {"tiny/a": BROKEN + "#"}},
        {"problems": {"tiny": TINY + "#"}},
        {"trials": 2},
        {"dtype": "float64"},
        {"size": "smoke"},
    ],
    ids=["solution", "problem", "settings", "dtype", "size"],
)
def test_what_has_changed_since_is_done_again(request_of: Any, changed: dict[str, Any]) -> None:
    original: dict[str, Any] = {"solutions": {"tiny/a": BROKEN}, "problems": {"tiny": SIZED}}
    first = run.execute(request_of(**original, size="full"), Told())
    if "problems" in changed:
        changed = {"problems": {"tiny": SIZED + "#"}}
    again = run.execute(request_of(**({"size": "full"} | original | changed)), Told())
    assert again[0].run_id != first[0].run_id


def test_what_was_skipped_or_not_judged_is_tried_again(request_of: Any) -> None:
    solutions = {"tiny/a": "DEVICES = ('cuda',)\n" + HONEST}
    first = run.execute(request_of(solutions), Told())
    assert statuses(first) == ["skipped"]
    assert run.execute(request_of(solutions), Told())[0].run_id != first[0].run_id


def test_a_line_cut_short_is_set_aside_and_done_again(
    request_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    request = request_of({"tiny/a": BROKEN, "tiny/b": BROKEN + "#"})
    first = run.execute(request, Told())
    (file,) = request.results_dir.glob("*.csv")
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    again = run.execute(request, Told())
    assert again[0].run_id == first[0].run_id
    assert again[1].run_id != first[1].run_id
    assert len(results.read(file)) == 2
    assert "set aside" in caplog.text


def test_an_output_that_is_no_results_file_is_refused_and_left_alone(
    request_of: Any, tmp_path: Path
) -> None:
    output = tmp_path / "notes.csv"
    output.write_text("a,b\n1,2\n")
    with pytest.raises(RequestError, match="no results file"):
        run.execute(request_of({"tiny/a": BROKEN}, output=output), Told())
    assert output.read_text() == "a,b\n1,2\n"


# --- building alone -----------------------------------------------------------------------------


def test_building_alone_writes_no_rows_and_needs_no_device(request_of: Any, tmp_path: Path) -> None:
    solutions = {"tiny/a": BROKEN, "tiny/cuda": "DEVICES = ('cuda',)\n" + HONEST}
    rows = run.execute(request_of(solutions, build_only=True, device="cuda"), Told())
    assert statuses(rows) == ["contract_error", "built"]
    assert not list((tmp_path / "results").glob("*.csv"))


def test_building_alone_has_an_architecture_without_a_gpu(request_of: Any) -> None:
    context = run.make_context(request_of({}, build_only=True))
    assert context.device.arch is not None
    assert context.device.type == "cpu"
    if not torch.cuda.is_available():
        assert context.device.arch == device.COMMON_ARCH


def test_several_architectures_are_taken_as_the_settings_allow_them(request_of: Any) -> None:
    context = run.make_context(request_of({}, build_only=True, cuda_arch="8.0;9.0a"))
    assert context.settings.cuda_arch == "8.0;9.0a"


# --- suites from elsewhere: a folder per level, a forward only ---------------------------------

NO_BACKWARD = HONEST.replace("return ", "return 0 + ").replace("x - y", "x.detach() - y.detach()")
WRONG_BACKWARD = HONEST.replace("(x - y)", "(x - y.detach())")

#: The backward raises, or the forward does with grad: KernelBench's generations have both.
RAISES = (
    HONEST.replace("return ((x - y) ** 2)", "return Square.apply(x - y)")
    + """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError
"""
)
RAISES_WITH_GRAD = HONEST.replace("(x - y)", "torch.sub(x, y, out=torch.empty_like(x))")


@pytest.mark.parametrize(
    ("problem", "solution", "required", "status", "flags"),
    [
        ("level1/1_A", RAISES, False, Status.PASS, ("backward_wrong",)),
        ("level1/1_A", RAISES, True, Status.RUNTIME_ERROR, ()),
        ("level1/1_A", RAISES_WITH_GRAD, False, Status.PASS, ("backward_wrong",)),
        ("tiny", RAISES_WITH_GRAD, False, Status.RUNTIME_ERROR, ()),
        ("level1/1_A", RAISES + "    raise 1", False, Status.LOAD_ERROR, ()),
        ("level1/1_A", NO_BACKWARD, False, Status.PASS, ()),
        ("level1/1_A", NO_BACKWARD, True, Status.FORWARD_ONLY, ()),
        ("tiny", NO_BACKWARD, False, Status.FORWARD_ONLY, ()),
        ("level1/1_A", WRONG_BACKWARD, False, Status.PASS, ("backward_wrong",)),
        ("level1/1_A", WRONG_BACKWARD, True, Status.WRONG_GRADIENT, ()),
        ("level1/1_A", WRONG, False, Status.WRONG_OUTPUT, ()),
    ],
)
def test_a_suite_that_asks_for_a_forward_gets_no_more_asked(
    request_of: Any, problem: str, solution: str, required: bool, status: Status, flags: Any
) -> None:
    solutions = {f"{problem}/mine": solution}
    wanted = request_of(solutions, {problem: TINY}, layouts=())
    wanted = dataclasses.replace(wanted, require_backward=required)
    (row,) = run.execute(wanted, Told())
    assert (row.problem, row.verdict.status) == (problem, status)
    assert set(flags) <= set(row.flags)
    assert bool(flags) == ("backward_wrong" in row.flags)


def test_the_samples_of_a_folder_of_generations_get_a_row_each(request_of: Any) -> None:
    solutions = {
        "level_1_problem_1_sample_0_kernel": BROKEN,
        "level_1_problem_1_sample_1_kernel": "None",
        "level_1_problem_2_sample_0_kernel": BROKEN,
    }
    rows = run.execute(request_of(solutions, {"level1/1_A": TINY, "level1/2_B": TINY}), Told())
    found = [(row.problem, row.solution, row.verdict.status) for row in rows]
    assert found == [
        ("level1/1_A", "sample_0", Status.CONTRACT_ERROR),
        ("level1/1_A", "sample_1", Status.CONTRACT_ERROR),
        ("level1/2_B", "sample_0", Status.CONTRACT_ERROR),
    ]


def test_the_size_that_fits_is_in_the_row(request_of: Any) -> None:
    big = TINY.replace("ROWS = 8", "ROWS = 1 << 40")
    budget = fit.Cost(bytes=1 << 22, forward_s=1.0)  # a real one makes real work of it
    with mock.patch.object(fit, "budget_of", return_value=budget):
        (row,) = run.execute(request_of({"tiny/a": HONEST}, {"tiny": big}, size="fit"), Told())
    assert row.verdict.status is Status.PASS
    name, value = row.size.split("=")
    assert name == "ROWS"
    assert 2 < int(value) < 1 << 30
    (row,) = run.execute(request_of({"tiny/a": HONEST}, size="fit"), Told())
    assert row.size == "full"


def test_a_problem_that_fits_at_no_size_is_its_own_fault(request_of: Any) -> None:
    big = TINY.replace("COLUMNS)", "1 << 50)")
    wanted = request_of({"tiny/a": HONEST, "ok/a": BROKEN}, {"tiny": big, "ok": TINY}, size="fit")
    statuses = {row.problem: row.verdict.status for row in run.execute(wanted, Told())}
    assert statuses == {"tiny": Status.REFERENCE_ERROR, "ok": Status.CONTRACT_ERROR}


def test_a_self_check_needs_no_solutions(request_of: Any) -> None:
    problems = {"tiny": TINY, "broken": "class Model(:\n"}
    rows = run.execute(request_of({}, problems, self_check=True, size="ROWS=4"), Told())
    found = {row.problem: (row.solution, row.verdict.status) for row in rows}
    assert found == {
        "tiny": ("self_check", Status.PASS),
        "broken": ("self_check", Status.REFERENCE_ERROR),
    }


@pytest.mark.parametrize(
    ("imports", "named"),
    [
        ("import tilelang\n", "tilelang"),
        ("import cutlass.cute as cute\n", "cutlass, .*nvidia-cutlass-dsl"),
        ("from tilelang import language as T\n", "tilelang"),
        ("try:\n    import tilelang\nexcept ImportError:\n    pass\n", "needs a CUDA device"),
    ],
)
def test_a_language_that_is_not_installed_is_skipped_by_name(
    request_of: Any, imports: str, named: str
) -> None:
    with mock.patch("importlib.util.find_spec", return_value=None):
        (row,) = run.execute(request_of({"tiny/a": imports + HONEST}), Told())
    assert row.verdict.status is Status.SKIPPED
    assert re.search(named, row.verdict.message)


def test_a_language_that_is_installed_is_not_skipped_for_it(request_of: Any) -> None:
    with mock.patch("importlib.util.find_spec", return_value=object()):
        (row,) = run.execute(request_of({"tiny/a": "import tilelang\n" + HONEST}), Told())
    assert "CUDA device" in row.verdict.message
