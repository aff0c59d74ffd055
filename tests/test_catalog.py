"""Finding: names lead to the right files, and a wrong name says what there is."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from harness import catalog, run
from harness.config import Settings
from harness.errors import HarnessError, ProblemError, RequestError, nearest
from harness.records import Problem

PROBLEM = """\
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x

def get_inputs():
    return [torch.rand(4)]
"""
SOLUTION = """\
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x
"""
KL = Problem(name="kl_div", path="kl_div.py", source=PROBLEM, digest="0" * 16)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- problems -----------------------------------------------------------------------------------


def test_problems_are_found_in_a_tree_under_their_stems(tmp_path: Path) -> None:
    for name in (
        "kl_div.py",
        "level1/94_MSELoss.py",
        "level 2/1 with spaces.py",
        "_helper.py",
        ".hidden.py",
        "__pycache__/kl_div.py",
        ".venv/lib/x.py",
        "notes.txt",
    ):
        write(tmp_path / name, PROBLEM)
    found = catalog.find_problems(tmp_path)
    assert list(found) == ["1 with spaces", "kl_div", "level1/94_MSELoss"]
    assert found["level1/94_MSELoss"] == tmp_path / "level1" / "94_MSELoss.py"


def test_the_folder_of_a_level_is_part_of_the_name(tmp_path: Path) -> None:
    for name in ("level1/1_A.py", "level2/1_A.py", "level2/2_B.py"):
        write(tmp_path / name, PROBLEM)
    assert list(catalog.find_problems(tmp_path)) == ["level1/1_A", "level2/1_A", "level2/2_B"]
    assert catalog.load_problem("level2/1_A", tmp_path).name == "level2/1_A"


def test_colliding_stems_are_told_apart_by_their_folder(tmp_path: Path) -> None:
    for name in ("one/a.py", "two/a.py", "two/b.py"):
        write(tmp_path / name, PROBLEM)
    assert list(catalog.find_problems(tmp_path)) == ["b", "one/a", "two/a"]


def test_a_level_is_named_alike_from_inside_of_it_and_by_its_path(tmp_path: Path) -> None:
    file = write(tmp_path / "level1" / "94_MSELoss.py", PROBLEM)
    other = write(tmp_path / "other" / "mine.py", PROBLEM).parent
    assert list(catalog.find_problems(tmp_path / "level1")) == ["level1/94_MSELoss"]
    for folder in (tmp_path, tmp_path / "level1", other, tmp_path / "missing"):
        assert catalog.load_problem(file, folder).name == "level1/94_MSELoss"
        assert catalog.load_problem(other / "mine.py", folder).name == "mine"
    assert (catalog.level_of("level1/94_MSELoss"), catalog.number_of("level1/94_MSELoss")) == (
        1,
        94,
    )
    assert (catalog.level_of("kl_div"), catalog.number_of("kl_div")) == (None, None)


@pytest.mark.parametrize(
    ("stem", "number"),
    [("9_A", 9), ("9 A (v2)", 9), ("9-A", 9), ("9", 9), ("3D_conv", None), ("A_9", None)],
)
def test_a_problem_s_number_ends_at_what_is_no_letter(
    tmp_path: Path, stem: str, number: int | None
) -> None:
    write(tmp_path / "problems/level1" / f"{stem}.py", PROBLEM)
    write(tmp_path / "runs/level_1_problem_9_sample_0_kernel.py", "class ModelNew: pass")
    problem = catalog.load_problem(stem, tmp_path / "problems")
    assert catalog.number_of(problem.name) == number
    assert len(catalog.find_solutions(tmp_path / "runs", problem)) == (1 if number else 0)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["level_1_problem_9_sample_0_kernel.py", "level_1_problem_9_sample_0.md"], None),
        (["level_1_problem_9_sample_0.py", "level_1_problem_9_sample_00.py"], None),
        (["level_1_problem_9_sample_1.py", "9_A/sample_1.py"], None),
        (["level_1_problem_9_sample_1.py", "9_A/sample_01.py"], ["sample_01", "sample_1"]),
    ],
)
def test_files_of_one_sample_are_all_solutions(
    tmp_path: Path, files: list[str], names: list[str] | None
) -> None:
    problem = Problem(name="level1/9_A", path="9_A.py", source="", digest="")
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("")
    found = catalog.find_solutions(tmp_path, problem)
    assert [s.name for s in found] == (names or sorted(Path(file).name for file in files))
    assert {s.path for s in found} == {str(tmp_path / file) for file in files}


def test_a_folder_of_generations_holds_several_samples_a_problem(tmp_path: Path) -> None:
    write(tmp_path / "problems" / "level1" / "9_A.py", PROBLEM)
    problem = catalog.load_problem("9_A", tmp_path / "problems")
    runs = tmp_path / "run"
    for name in (
        "level_1_problem_9_sample_0_kernel.py",
        "level_1_problem_9_sample_11_kernel.py",
        "level_1_problem_9_sample_0_prompt.txt",  # what was asked, no solution
        "level_1_problem_94_sample_0_kernel.py",
        "level_2_problem_9_sample_0_kernel.py",
    ):
        write(runs / name, SOLUTION)
    found = catalog.find_solutions(runs, problem)
    assert [s.name for s in found] == ["sample_0", "sample_11"]
    assert found[1].path == str(runs / "level_1_problem_9_sample_11_kernel.py")
    assert [catalog.sample_of(s.name) for s in found] == [0, 11]
    by_path = catalog.load_solution(found[1].path, tmp_path / "none", problem)
    assert (by_path.name, catalog.sample_of(by_path.name)) == (Path(found[1].path).stem, 11)
    assert catalog.sample_of("cuda") is None


@pytest.mark.parametrize(
    "wanted", ["94_MSELoss", "level1/94_MSELoss", "level1/94_MSELoss.py", "PATH"]
)
def test_a_problem_is_loaded_by_name_or_by_path(tmp_path: Path, wanted: str) -> None:
    path = write(tmp_path / "level1" / "94_MSELoss.py", PROBLEM)
    problem = catalog.load_problem(path if wanted == "PATH" else wanted, tmp_path)
    assert (problem.name, problem.path) == ("level1/94_MSELoss", str(path))
    assert problem.source == PROBLEM
    assert len(problem.digest) == 16
    assert set(problem.digest) <= set("0123456789abcdef")


def test_a_problem_file_anywhere_needs_no_problem_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", PROBLEM)
    assert catalog.load_problem(str(path), tmp_path / "missing").name == "mine"


def test_a_job_from_a_problem_file_needs_no_problem_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", PROBLEM)
    write(tmp_path / "solutions" / "mine" / "fused.py", SOLUTION)
    request = run.Request(
        settings=Settings(),
        problem=str(path),
        problem_dir=tmp_path / "missing",
        solution_dir=tmp_path / "solutions",
    )
    [job] = run.find(request)
    assert (job.problem.name, job.fault) == ("mine", None)
    assert [solution.name for solution in job.solutions] == ["fused"]


@pytest.mark.parametrize("content", [PROBLEM, "class Model(:\n"])
@pytest.mark.parametrize("wanted", [None, "level1/1_A"])
def test_a_faulty_problem_keeps_its_full_name_and_its_solutions(
    tmp_path: Path, content: str, wanted: str | None
) -> None:
    for level in ("level1", "level2"):
        write(tmp_path / "problems" / level / "1_A.py", content)
        write(tmp_path / "solutions" / level / "1_A" / f"of_{level}.py", SOLUTION)
    write(tmp_path / "solutions" / "1_A" / "of_none.py", SOLUTION)
    request = run.Request(
        settings=Settings(),
        problem=wanted,
        problem_dir=tmp_path / "problems",
        solution_dir=tmp_path / "solutions",
    )
    jobs = run.find(request)
    found = [(job.problem.name, [solution.name for solution in job.solutions]) for job in jobs]
    everything = [("level1/1_A", ["of_level1"]), ("level2/1_A", ["of_level2"])]
    assert found == everything[: 1 if wanted else 2]
    assert {job.fault is None for job in jobs} == {content == PROBLEM}


@pytest.mark.parametrize("wanted", ["kldiv", "KL-div", "kl_dvi", "kl"])
def test_an_unknown_problem_is_one_line_with_the_nearest_names(tmp_path: Path, wanted: str) -> None:
    for name in ("kl_div", "mse", "smooth_l1"):
        write(tmp_path / f"{name}.py", PROBLEM)
    with pytest.raises(RequestError, match="nearest: kl_div") as caught:
        catalog.load_problem(wanted, tmp_path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 2


def test_a_name_that_is_near_to_nothing_lists_what_there_is(tmp_path: Path) -> None:
    write(tmp_path / "mse.py", PROBLEM)
    with pytest.raises(RequestError, match="the problems are: mse"):
        catalog.load_problem("zzzzzz", tmp_path)


@pytest.mark.parametrize("wanted", ["", "../secret", "a\0b", "x" * 5000])
def test_absurd_names_are_unknown_names(tmp_path: Path, wanted: str) -> None:
    write(tmp_path / "mse.py", PROBLEM)
    with pytest.raises(RequestError):
        catalog.load_problem(wanted, tmp_path)


def test_a_folder_is_no_problem_and_a_missing_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "level1").mkdir()
    with pytest.raises(RequestError, match="is a folder"):
        catalog.load_problem(str(tmp_path / "level1"), tmp_path)
    with pytest.raises(RequestError, match="--problem-dir"):
        catalog.find_problems(tmp_path / "missing")


# --- solutions: finding -------------------------------------------------------------------------


def test_solutions_are_found_by_name_and_readme_is_none(tmp_path: Path) -> None:
    for name in ("b.py", "a.txt", "c.md", "README.md", "_x.py", ".y.py", "z.cu", "sub/d.py"):
        write(tmp_path / "kl_div" / name, SOLUTION)
    found = catalog.find_solutions(tmp_path, KL)
    assert [solution.name for solution in found] == ["a", "b", "c"]
    assert {solution.problem for solution in found} == {"kl_div"}
    assert all(solution.fault is None for solution in found)


def test_solutions_with_one_stem_keep_their_suffix(tmp_path: Path) -> None:
    for name in ("fused.py", "fused.md", "other.py"):
        write(tmp_path / "kl_div" / name, SOLUTION)
    names = [solution.name for solution in catalog.find_solutions(tmp_path, KL)]
    assert names == ["fused.md", "fused.py", "other"]
    assert catalog.load_solution("fused.md", tmp_path, KL).path.endswith("fused.md")


def test_a_problem_without_solutions_has_none_but_a_missing_folder_is_named(
    tmp_path: Path,
) -> None:
    assert catalog.find_solutions(tmp_path, KL) == []
    with pytest.raises(RequestError, match="--solution-dir"):
        catalog.find_solutions(tmp_path / "missing", KL)


def test_a_solution_is_loaded_by_name_or_from_anywhere(tmp_path: Path) -> None:
    write(tmp_path / "kl_div" / "fused.py", SOLUTION)
    outside = write(tmp_path / "elsewhere" / "mine.py", SOLUTION)
    named = catalog.load_solution("fused", tmp_path, KL)
    assert catalog.load_solution("fused.py", tmp_path, KL) == named
    assert catalog.load_solution(named.path, tmp_path, KL) == named
    assert catalog.load_solution(outside, tmp_path / "missing", KL).name == "mine"
    assert catalog.load_solution(outside, tmp_path, KL).digest == named.digest
    with pytest.raises(RequestError, match="nearest: fused"):
        catalog.load_solution("fusde", tmp_path, KL)


# --- errors -------------------------------------------------------------------------------------


def test_every_message_is_one_line() -> None:
    assert str(RequestError("a\n  b\r\nc")) == "a b c"
    statuses = {error.__name__: error.exit_status for error in HarnessError.__subclasses__()}
    assert statuses == {"RequestError": 2, "MachineError": 3, "ProblemError": 1}


def test_a_problem_error_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(ProblemError("no Model", path="p.py", line=3)))
    assert (str(error), error.path, error.line) == ("p.py:3: no Model", "p.py", 3)


def test_nearest_knows_parts_and_spellings() -> None:
    names = ["94_MSELoss", "98_KLDivLoss", "1_Square_matrix_multiplication_"]
    assert nearest("mseloss", names)[0] == "94_MSELoss"
    assert nearest("kl-div", names)[0] == "98_KLDivLoss"
    assert nearest("matrix", names) == ["1_Square_matrix_multiplication_"]
    assert nearest("", names) == []
