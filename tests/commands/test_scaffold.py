"""Skeletons evaluate as they are, say what they are, and never take a file's place."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from support import ROOT, Bench

from harness import catalog, cli
from harness.commands import scaffold
from harness.errors import MachineError, RequestError
from harness.records import Status
from harness.shared.problem import Draw, Instance, sizes

DEVICES = {"cuda": ("cuda",), "triton": ("cuda",), "cpp": ("cpu",), "python": ("cpu", "cuda")}

#: A problem that is none of ours: parameters, constants, helpers, super() with its own name.
FOREIGN = """from __future__ import annotations

import math
import os
import torch
import torch.nn as nn

FACTOR = math.sqrt(2)
UNUSED = 3


def helper(x):
    return x * FACTOR  # a comment


class Model(nn.Module):
    def __init__(self, width: int):
        super(Model, self).__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, shift: float = 1.0) -> torch.Tensor:
        return helper(self.linear(x)) + shift


def get_inputs():
    return [torch.randn(16, 32)]


def get_init_inputs():
    return [32]
"""


def skeleton(folder: Path, name: str = "mine") -> Path:
    return scaffold.new_problem(name, folder / "problems")


def solution(folder: Path, language: str, problem: str = "mine") -> Path:
    return scaffold.new_solution(
        problem, f"new_{language}", language, folder / "problems", folder / "solutions"
    )


# --- a new problem ------------------------------------------------------------------------------


def test_the_problem_skeleton_is_a_problem(tmp_path: Path) -> None:
    path = skeleton(tmp_path)
    problem = catalog.load_problem("mine", tmp_path / "problems")
    assert sizes(problem.source) == ("full", "smoke", "odd")
    instance = Instance(
        source=problem.source,
        path=str(path),
        size="odd",
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    inputs = instance.inputs(Draw(seed=1))
    assert list(instance.leaves(inputs)) == ["x"]
    assert instance.model(0)(*inputs).shape == (251, 1031)


@pytest.mark.parametrize("language", scaffold.LANGUAGES)
@pytest.mark.parametrize("problem", ["mine", "foreign", "kl_div"])
def test_solution_skeletons_are_read_without_fault(
    tmp_path: Path, language: str, problem: str
) -> None:
    skeleton(tmp_path)
    (tmp_path / "problems" / "foreign.py").write_text(FOREIGN)
    (tmp_path / "problems" / "kl_div.py").write_text((ROOT / "problems/kl_div.py").read_text())
    path = solution(tmp_path, language, problem)
    text = path.read_text()
    ast.parse(text)
    assert "@" not in text.replace("@staticmethod", "").replace("@once_differentiable", "").replace(
        "@triton.jit", ""
    )
    assert "TODO" in text
    loaded = catalog.load_problem(problem, tmp_path / "problems")
    (found,) = catalog.find_solutions(tmp_path / "solutions", loaded)
    assert found.fault is None
    assert found.devices == DEVICES[language]
    assert ("class Model(" in text) is (problem != "mine")


@pytest.mark.parametrize("place", ["a file", "under a file"])
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / ("" if place == "a file" else "x")
    with pytest.raises(MachineError, match="cannot write"):
        scaffold.new_problem("mine", folder)
    skeleton(tmp_path)
    with pytest.raises(MachineError, match="cannot write"):
        scaffold.new_solution("mine", "x", "cpp", tmp_path / "problems", folder)


def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object, **__: object) -> Any:
        path.touch()
        return open("/dev/full", "w")

    with monkeypatch.context() as patched:
        patched.setattr(scaffold.Path, "open", full)
        with pytest.raises(MachineError, match="No space left"):
            scaffold._write(tmp_path / "x.py", "text")
    scaffold._write(tmp_path / "x.py", "text")  # with room again, no half of a file is in the way


def test_what_to_do_next_can_be_pasted_whatever_a_folder_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [f"--{kind}-dir={tmp_path / f'my {kind}s; é'}" for kind in ("problem", "solution")]
    for command in (["new", "problem", "p", folders[0]], ["new", "solution", "p", "s", *folders]):
        assert cli.main(command) == 0
        *_, then = capsys.readouterr().out.splitlines()
        words = shlex.split(then.partition("run_eval.py ")[2])
        assert words[words.index("--problem-dir") + 1] == str(tmp_path / "my problems; é")
    assert Path(words[words.index("--solution") + 1]).exists()


def test_only_the_untouched_model_is_known(tmp_path: Path) -> None:
    path = skeleton(tmp_path)
    text = path.read_text()
    path.write_text(text.replace("TODO: the reference", "Ours").replace("ROWS = 8192", "ROWS = 64"))
    assert "class Model(" not in solution(tmp_path, "python").read_text()
    path.write_text(text.replace("scale * F.silu(x)", "scale * F.gelu(x)"))
    assert "class Model(" in solution(tmp_path, "cpp").read_text()


def test_a_copied_reference_has_what_it_needs_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "problems").mkdir()
    source = FOREIGN.replace("x: torch.Tensor, shift", "x: torch.Tensor, *rest, shift")
    (tmp_path / "problems" / "foreign.py").write_text(source)
    text = solution(tmp_path, "python", "foreign").read_text()
    assert "import math" in text
    assert "return x * FACTOR  # a comment" in text
    assert "def forward(self, x: torch.Tensor, *rest, shift: float=1.0):" in text
    assert "super().forward(x, *rest, shift=shift)" in text
    for left_out in ("UNUSED", "import os", "get_inputs", "get_init_inputs"):
        assert left_out not in text


# --- evaluated as they are ------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_skeletons_of_a_new_problem_pass(tmp_path: Path, bench: Bench, language: str) -> None:
    skeleton(tmp_path)
    problem = catalog.load_problem("mine", tmp_path / "problems")
    row = bench.judge(solution(tmp_path, language), problem, "odd", profile=True)
    assert row.verdict.status is Status.PASS, row.verdict
    assert ("library_only" in row.flags) is (language == "python")


def test_a_foreign_problem_s_skeleton_is_right_and_library_only(
    tmp_path: Path, bench: Bench
) -> None:
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "foreign.py").write_text(FOREIGN)
    problem = catalog.load_problem("foreign", tmp_path / "problems")
    row = bench.judge(solution(tmp_path, "python", "foreign"), problem, profile=True)
    assert row.verdict.status is Status.PASS, row.verdict
    assert "library_only" in row.flags


def test_the_formula_is_the_same_in_triton_and_python(tmp_path: Path) -> None:
    """What cannot run here has the text of what can."""
    skeleton(tmp_path)
    texts = {one: solution(tmp_path, one).read_text() for one in scaffold.LANGUAGES}
    assert "factor * s * (1 + value * (1 - s))" in texts["triton"]
    assert "scale * s * (1 + x * (1 - s))" in texts["python"]


# --- what must not happen -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "../x", "a/b", ".hidden", "_private", "a b", "x" * 65, "README", "a.py", "ä"]
)
def test_invalid_names_are_refused(tmp_path: Path, name: str) -> None:
    skeleton(tmp_path)
    with pytest.raises(RequestError, match="cannot be a name"):
        scaffold.new_problem(name, tmp_path / "problems")
    with pytest.raises(RequestError, match="cannot be a name"):
        scaffold.new_solution("mine", name, "cpp", tmp_path / "problems", tmp_path / "solutions")
    assert not (tmp_path / "solutions").exists()


@pytest.mark.parametrize("name", ["94_MSELoss", "a-b", "A"])
def test_kernelbench_names_are_taken(tmp_path: Path, name: str) -> None:
    skeleton(tmp_path, name)
    text = solution(tmp_path, "cpp", name).read_text()
    (call,) = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "load_inline"
    )
    given: dict[str | None, Any] = {k.arg: k.value for k in call.keywords}
    assert ast.literal_eval(given["name"]).isidentifier()


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    path = skeleton(tmp_path)
    path.write_text(path.read_text() + "# mine\n")
    for name in ("mine", "MINE"):
        with pytest.raises(RequestError, match="already"):
            scaffold.new_problem(name, tmp_path / "problems")
    deeper = tmp_path / "problems" / "level1" / "other.py"
    deeper.parent.mkdir()
    deeper.write_text("")
    with pytest.raises(RequestError, match="already"):  # two of one name would rename both
        scaffold.new_problem("other", tmp_path / "problems")
    first = solution(tmp_path, "python")
    first.write_text("# mine\n")
    answer = first.with_name("answer.md")
    answer.write_text("# an answer\n")
    for name in ("new_python", "answer"):
        with pytest.raises(RequestError, match="already"):
            scaffold.new_solution(
                "mine", name, "cpp", tmp_path / "problems", tmp_path / "solutions"
            )
    assert first.read_text() == "# mine\n"
    assert path.read_text().endswith("# mine\n")


def test_unknown_problem_and_language_are_refused(tmp_path: Path) -> None:
    skeleton(tmp_path)
    with pytest.raises(RequestError, match="cuda"):
        solution(tmp_path, "cudo")
    with pytest.raises(RequestError, match="mine"):
        solution(tmp_path, "cpp", "mne")


def test_the_command_writes_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--problem-dir", str(tmp_path / "p")]
    assert cli.main(["new", "problem", "mine", *places]) == 0
    assert "new solution mine mine" in capsys.readouterr().out
    places += ["--solution-dir", str(tmp_path / "s")]
    command = ["new", "solution", "mine", "x", "--language", "triton", *places]
    assert cli.main(command) == 0
    assert str(tmp_path / "s/mine/x.py") in capsys.readouterr().out
    assert cli.main(command) == 2
