"""Every command, flag, link and example of README.md and docs/ works as written.

Commands run in this process, in a copy of problems/ and solutions/ with two results files; what
takes long (evaluating, mutants, profiling) is replaced by its result, and everything around it is
real: arguments, names, files, rows. A bash block after `<!-- not run: WHY -->` is left out.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import json
import math
import re
import runpy
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from examples import make, mode
from support import ROOT

import harness
from harness import cli, identity, results, run
from harness.commands import doctor
from harness.commands.watch import Watcher
from harness.fleet import cluster, host
from harness.judge import build, profiling
from harness.judge import evaluate as judge
from harness.judge.audit import RULES
from harness.judge.build import Build
from harness.judge.case import Opened
from harness.judge.checking.passes import PASSES
from harness.judge.fitness import lint
from harness.judge.process import toolchain
from harness.judge.profiling import Kernel, Profile
from harness.judge.rows import Findings
from harness.judge.subject import Subject
from harness.judge.timing.baseline import Baseline
from harness.records import MODES, Phase, Row, Status

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?```(bash|python)\n(.*?)```", re.S)


def blocks(kind: str) -> list[tuple[str, str]]:
    """(page, text) of each block that is to be run."""
    return [
        (page.name, text)
        for page in PAGES
        for skipped, language, text in BLOCK.findall(page.read_text())
        if language == kind and not skipped
    ]


COMMANDS = list(
    dict.fromkeys(
        (page, line.strip())
        for page, text in blocks("bash")
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    )
)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the pages could have been written in."""
    for name in ("problems", "solutions", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("path/to/mine.py", "solutions/mse/mine.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / "solutions/mse/cpp.py").read_text())
    (tmp_path / "results" / "raw").mkdir(parents=True)
    results.append(tmp_path / "results/suite.csv", make("sample_0", problem="level1/94_MSELoss"))
    published = {
        "ref_code": "class Model: pass",
        "custom_code": "None",
        "level_id": 1,
        "task_id": 1,
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(published) + "\n")
    (tmp_path / "answer.md").write_text("```python\nclass ModelNew: pass\n```\n")
    _suite(tmp_path, published)
    for name in ("results/before.csv", "results/after.csv", "before.csv", "after.csv"):
        for solution in ("cpp", "mine"):
            row = make(solution, problem="mse", time=f"2026-01-0{1 + ('after' in name)}T00:00:00Z")
            results.append(tmp_path / name, row)
    monkeypatch.chdir(tmp_path)
    for module in ("arguments", "tools", "rows", "doctor"):
        monkeypatch.setattr(f"harness.commands.{module}.ROOT", tmp_path)
    places = {"results_dir": tmp_path / "results", "cache_dir": tmp_path / "cache"}
    places |= {f"{kind}_dir": tmp_path / f"{kind}s" for kind in ("problem", "solution")}
    monkeypatch.setattr(run, "Request", functools.partial(run.Request, **places))
    _hurry(monkeypatch)
    return tmp_path


def _suite(folder: Path, row: dict[str, object]) -> None:
    """What somebody who comes from KernelBench has."""
    problem, solution = (
        (ROOT / name).read_text() for name in ("problems/mse.py", "solutions/mse/cpp.py")
    )
    written = {
        "KernelBench/level1/94_MSELoss.py": problem,
        "runs/my_run/level_1_problem_94_sample_0_kernel.py": solution,
        "mine.py": solution,
        "h100.jsonl": json.dumps(row) + "\n",
        "imported/h100/problems/level1/94.py": problem,
        "imported/h100/solutions/level1/94/sample_0.py": solution,
    }
    for name, text in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    results.append(folder / "results/my_run.csv", make("sample_0", problem="level1/94_MSELoss"))


def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long is replaced by its result."""
    kernel = Kernel(name="k", calls=1, time_us=1.0, share=1.0)
    names = ("problem", "solution", "device_name", "size", "dtype", "mode")
    profile = Profile(**dict.fromkeys(names, "x"), reference=(kernel,), candidate=(kernel,))

    def case(context: Any, problem: Any, size: str, note: Any) -> Any:
        subject = Subject(problem=problem, size=size)
        return mock.Mock(context=context, subject=subject, baseline=Baseline())

    def interrupt(watcher: Watcher) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "open_case", case)
    monkeypatch.setattr(Opened, "__call__", lambda opened, *told: case(*told))
    built = Build(verdict=make(status=Status.BUILT).verdict, found=Findings(), total_s=1.0)
    monkeypatch.setattr(
        judge, "evaluate", lambda case, solution, note, **_: (_row(case, solution), {})
    )
    monkeypatch.setattr(build, "alone", lambda *_: built)
    monkeypatch.setattr(profiling, "take", lambda *_, **__: profile)
    monkeypatch.setattr(lint, "lint", lambda *_: [])
    monkeypatch.setattr(doctor, "examine", lambda *_: ())
    for many in (host, cluster):  # real ones: test_fleet.py, test_cluster.py
        monkeypatch.setattr(
            many, "execute", lambda request, _, observer: run.execute(request, observer)
        )
    monkeypatch.setattr(toolchain, "require_builds", lambda *_, **__: None)
    monkeypatch.setattr(Watcher, "wait", interrupt)


def _row(case: Any, solution: Any) -> Row:
    environment = make().environment
    return make(
        solution.name,
        1.0 if solution.name == identity.NAME else 2.0,
        problem=case.subject.problem.name,
        solution_digest=solution.digest,
        problem_digest=case.subject.problem.digest,
        size=case.subject.size,
        dtype=case.context.settings.dtype,
        environment=dataclasses.replace(environment, device_name=case.context.device.name),
    )


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[line for _, line in COMMANDS])
def test_every_command_works_as_written(house: Path, page: str, line: str) -> None:
    words = [
        word
        for part in shlex.split(line, comments=True)
        for word in (sorted(map(str, Path().glob(part))) if "*" in part else [part])
    ]
    match words:
        case ["python", "run_eval.py", *options]:
            if options[0] == "new":
                (house / "solutions" / "mse" / "mine.py").unlink()
            if options[0] == "import":
                shutil.rmtree(house / "imported")
            assert cli.main(options) == 0
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module)
        case ["make", target]:
            done = subprocess.run(
                ["make", "-n", target], cwd=ROOT, check=False, capture_output=True
            )
            assert done.returncode == 0, done.stderr
        case _:
            pytest.fail(f"{page}: nobody knows how to try `{line}`")


def test_there_are_commands_to_try_and_each_command_of_the_program_is_among_them() -> None:
    named = {word for _, line in COMMANDS for word in shlex.split(line, comments=True)}
    assert set(cli.COMMANDS) - {"evaluate"} <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_flag_that_a_page_names_exists(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known: set[str] = set()
    for name in cli.COMMANDS:
        more = [["new", "problem"], ["new", "solution"]] if name == "new" else [[name]]
        for words in more:
            with pytest.raises(SystemExit):
                cli.main([*words, "--help"])
            known |= set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    text = re.sub(r"```text.*?```", "", page.read_text(), flags=re.S)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+(?![\w-])", text))
    for file in (ROOT / "benchmarks").glob("*.py"):
        known |= set(re.findall(r"--[a-z][a-z-]+", file.read_text()))
    assert named <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_house_is_in_order() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "house.py"))["page"]()
    text = (ROOT / "docs" / "house.md").read_text()
    assert text == written, "write it again: python docs/house.py"


def test_verdicts_of_the_readme_are_those_that_there_are() -> None:
    table = (ROOT / "README.md").read_text().split("| verdict | means |")[1].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert {status.value for status in Status} - {"built"} <= named


def test_passes_and_rules_of_the_pages_are_those_of_the_code() -> None:
    passes = re.findall(r"^\| `(\w+)` \| ([FB ]+) \|", (ROOT / "docs/checks.md").read_text(), re.M)
    phases = {Phase.FORWARD: "F", Phase.BACKWARD: "B"}
    assert passes == [(one.name, " ".join(phases[p] for p in one.phases)) for one in PASSES]
    audited = (ROOT / "docs/integrity.md").read_text().split("| rule | claim |")[1]
    named = re.findall(r"^\| `(\w+)` \|", audited.split("\n\n")[0], re.M)
    assert sorted(named) == sorted(rule.__name__ for rule in RULES)


# --- Python -------------------------------------------------------------------------------------


def test_the_first_example_of_the_python_page_runs_as_written(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = (text for _, text in blocks("python"))
    exec(compile(first, "docs/python.md", "exec"), {})
    out = capsys.readouterr().out
    assert out.startswith("pass \n2.0\n")
    assert "solution status  forward_speedup" in out
    assert (house / "results" / "cpu.csv").exists()


@pytest.fixture
def reward(monkeypatch: pytest.MonkeyPatch) -> Callable[[Row], float]:
    """The reward function of the page, as written, for a row."""
    _, text = blocks("python")
    space: dict[str, Any] = {}
    exec(compile(text[1], "docs/python.md", "exec"), space)

    def of(row: Row) -> float:
        monkeypatch.setattr(harness.Judge, "evaluate", lambda judge, problem, answer: row)
        value: float = space["reward"]("p", "a")
        return value

    return of


def test_the_reward_has_ten_lines() -> None:
    _, (_, text) = blocks("python")
    assert len([line for line in text.splitlines() if line.strip()]) <= 12  # two are imports


@pytest.mark.parametrize("status", Status)
def test_no_verdict_but_pass_is_ever_rewarded_however_fast(
    reward: Callable[[Row], float], status: Status
) -> None:
    row = make(status=status, modes=dict.fromkeys(MODES, mode(1000.0)))
    if status in {Status.REFERENCE_ERROR, Status.HARNESS_ERROR}:
        with pytest.raises(RuntimeError):
            reward(row)
    elif status is Status.PASS:
        assert reward(row) == pytest.approx(math.log(990.0))
    else:
        assert reward(row) < reward(make(modes=dict.fromkeys(MODES, mode(0.1))))


def test_the_reward_takes_the_lower_end_and_is_never_less_than_nothing_for_a_pass(
    reward: Callable[[Row], float],
) -> None:
    noisy = dataclasses.replace(mode(2.0), low=0.9, high=4.0)
    assert reward(make(modes={"forward": noisy})) == 0.0
    assert reward(make(modes={"forward": mode(2.0)})) == pytest.approx(math.log(1.98))
    one_epoch = dataclasses.replace(mode(50.0), low=None, high=None)
    assert reward(make(modes={"forward_backward": one_epoch})) == 0.0
    assert reward(make(modes={})) == 0.0


def test_the_examples_of_the_pages_are_python() -> None:
    for page, text in blocks("python"):
        ast.parse(text, page)
