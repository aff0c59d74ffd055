"""Published result sets become problem and solution files; bad rows become verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from examples import REFERENCE, SOLUTION

from harness import catalog
from harness.commands import imports
from harness.errors import RequestError


def load(tmp_path: Path, rows: list[Any], **columns: str) -> imports.Imported:
    file = tmp_path / "rows.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    file.write_text("\n".join(lines))
    return imports.load(file, tmp_path / "out", columns)


def faults(found: imports.Imported) -> dict[str, str | None]:
    """problem/solution -> why it is a contract error."""
    told = {}
    for name in catalog.find_problems(found.problem_dir):
        problem = catalog.load_problem(name, found.problem_dir)
        for solution in catalog.find_solutions(found.solution_dir, problem):
            told[f"{name}/{solution.name}"] = solution.fault
    return told


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"level_id": 1, "task_id": 94, "ref_code": REFERENCE, "custom_code": SOLUTION},
         "level1/94/sample_0"),
        ({"Level_ID": 2, "Task_ID": 3, "Op_Name": "3_Conv ReLU", "Kernel_Name": "a b",
          "PyTorch_Code_Module": REFERENCE, "CUDA_Code": SOLUTION}, "level2/3_Conv_ReLU/a_b_0"),
        ({"level": "3", "problem_id": "7", "problem_name": "7_X.py", "sample_id": 4,
          "reference": REFERENCE, "kernel": SOLUTION}, "level3/7_X/sample_4"),
        ({"level": "level_1", "problem_id": 7.0, "problem_name": "7_X",
          "reference": REFERENCE, "kernel": SOLUTION}, "level1/7_X/sample_0"),
        ({"name": "../up", "reference": REFERENCE, "candidate": SOLUTION}, "up/sample_0"),
        ({"problem": "Level 2: 7_X Y", "problem_code": REFERENCE, "solution_code": SOLUTION,
          "model": "gpt-9"}, "level2/7_X_Y/gpt-9_0"),
        ({"op_name": "7_X", "level_id": 2, "task_id": 7, "kernel_name": "k",
          "pytorch_code_module": REFERENCE, "cuda_code": SOLUTION}, "level2/7_X/k_0"),
        ({"task": {"level": 1, "problem_id": 0, "reference_code": REFERENCE},
          "answer": {"sample_id": 2, "code": SOLUTION}, "level": None}, "level1/0/sample_2"),
    ],
)  # fmt: skip
def test_columns_are_known_by_the_names_that_sets_use(
    tmp_path: Path, row: dict[str, Any], name: str
) -> None:
    assert faults(load(tmp_path, [row])) == {name: None}


def test_rows_without_code_become_contract_errors_not_crashes(tmp_path: Path) -> None:
    base = {"level_id": 1, "task_id": 1, "ref_code": REFERENCE}
    fenced, thought = f"```python\n{SOLUTION}```", f"<think>\nSo.\n</think>\n{SOLUTION}"
    codes = [SOLUTION, None, "None", "", "def f(:", "x = 1", fenced, 5, thought]
    found = load(tmp_path, [base | {"custom_code": code} for code in codes])
    told = list(faults(found).values())
    assert [fault is None for fault in told] == [True, *[False] * 5, True, False, True]
    assert [i for i, fault in enumerate(told) if "holds no code" in (fault or "")] == [1, 2, 3]
    assert (found.solutions, found.without_code, len(found.problems)) == (9, 3, 1)


def test_lines_that_are_no_rows_are_told_and_left_out(tmp_path: Path) -> None:
    good = {"level_id": 1, "task_id": 1, "ref_code": REFERENCE, "custom_code": SOLUTION}
    found = load(tmp_path, ["{", good, "[1]", {"task_id": 2}, {"custom_code": "x"}])
    assert found.solutions == 1
    assert [note.split(":")[0] for note in found.notes] == [
        f"row {n} is left out" for n in (1, 3, 4, 5)
    ]


def test_candidates_alone_become_a_folder_of_generations(tmp_path: Path) -> None:
    rows = [{"level_id": 1, "problem_id": 9, "sample_id": n, "kernel": SOLUTION} for n in (0, 1, 1)]
    found = load(tmp_path, rows)
    names = sorted(file.name for file in found.solution_dir.iterdir())
    assert names == [f"level_1_problem_9_sample_{n}_kernel.py" for n in (0, 1, 2)]


def test_many_rows_of_one_problem_are_numbered_without_a_look_at_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look for each number that is taken made 400 rows take half a minute, and 2000 an hour."""
    monkeypatch.setattr(Path, "glob", None)
    row = {"level": 1, "task_id": 1, "reference": REFERENCE, "candidate": SOLUTION}
    found = load(
        tmp_path, [row, row | {"sample": 7}, row, row | {"sample": 7}, row | {"sample": 0}]
    )
    names = sorted(file.stem for file in (found.solution_dir / "level1" / "1").iterdir())
    assert names == [f"sample_{n}" for n in (0, 1, 2, 7, 8)]


def test_half_of_a_surrogate_pair_is_replaced_and_a_whole_one_kept(tmp_path: Path) -> None:
    row = {"level": 1, "task_id": 1, "problem_name": "1_\ud83d", "ref_code": REFERENCE}
    codes = [SOLUTION + "# \ud83d", SOLUTION + "# \ud83d\ude00", SOLUTION + "# \udc00"]
    found = load(tmp_path, [row | {"custom_code": code} for code in codes])
    assert list(faults(found).values()) == [None] * 3
    files = sorted((found.solution_dir / "level1" / "1").iterdir())
    last = [file.read_text(encoding="utf-8").splitlines()[-1] for file in files]
    assert last == ["# \ufffd", "# \U0001f600", "# \ufffd"]


ROW = {"task_id": 1, "ref_code": REFERENCE, "custom_code": SOLUTION}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ([ROW | {"level": 1}], ["level1/1"]),
        ({"1": [ROW], "2": [ROW]}, ["level1/1", "level2/1"]),
        ({"level_3": [ROW]}, ["level3/1"]),
        ({"model": "m", "stats": {"right": 2}, "results": [ROW, ROW | {"task_id": 2}]}, ["1", "2"]),
        ({"runs": [{"level": 2, "problems": [ROW]}, {"level": 3, "problems": [ROW]}]},
         ["level2/1", "level3/1"]),
    ],
    ids=["list", "by level", "by level's name", "beside what tells of them", "in lists of lists"],
)  # fmt: skip
def test_rows_are_found_in_lists_with_what_stands_around_them(
    tmp_path: Path, content: Any, names: list[str]
) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps(content, indent=1))
    found = imports.load(file, tmp_path / "out")
    assert (list(found.problems), found.notes) == (names, [])


def test_one_row_may_hold_several_candidates(tmp_path: Path) -> None:
    """As texts, or as the turns of a conversation, which itself is no row."""
    about = {"level": 1, "task_id": 1, "reference": REFERENCE}
    said = [{"role": "user", "content": "faster"}, {"role": "assistant", "content": SOLUTION}]
    turns = [{"code": SOLUTION, "result": {"correct": False}}, {"code": SOLUTION}, {"code": None}]
    rows = [about | {"response": [SOLUTION, "None"]}, about | {"messages": said, "turns": turns}]
    found = load(tmp_path, rows)
    assert (found.solutions, found.without_code, found.notes) == (5, 2, [])
    assert sorted(faults(found)) == [f"level1/1/sample_{n}" for n in range(5)]


def test_a_row_without_a_known_column_is_told_which_of_its_own_could_be_meant(
    tmp_path: Path,
) -> None:
    row = {
        "level": 1,
        **{f"c{n}": n for n in range(20)},
        "mine": SOLUTION,
        "more": {"r": REFERENCE},
    }
    with pytest.raises(RequestError, match=r"none of the columns .* --candidate: more\.r, mine, "):
        load(tmp_path, [row])
    with pytest.raises(RequestError, match="none of the columns mein; name"):
        load(tmp_path, [row], candidate="mein")
    assert load(tmp_path, [row], candidate="mine", reference="more.r").solutions == 1


def test_another_reference_of_the_same_name_is_another_problem(tmp_path: Path) -> None:
    row = {"level": 1, "task_id": 1, "candidate": SOLUTION}
    found = load(tmp_path, [row | {"reference": REFERENCE}, row | {"reference": REFERENCE + "#"}])
    assert len(found.problems) == 2
    assert len(faults(found)) == 2


def test_cuda_alone_takes_the_place_of_the_function(tmp_path: Path) -> None:
    cuda = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &f); }  // """ and \\n'
    row = {"Level_ID": 1, "Task_ID": 1, "PyTorch_Code_Module": REFERENCE, "CUDA_Code": cuda}
    found = load(tmp_path, [row, row | {"PyTorch_Code_Functional": REFERENCE}])
    problem = catalog.load_problem("1", found.problem_dir)
    alone, wrapped = catalog.find_solutions(found.solution_dir, problem)
    assert alone.fault
    assert (wrapped.fault, wrapped.devices) == (None, ("cuda",))
    assert repr(cuda) in wrapped.source


def test_another_column_can_be_named(tmp_path: Path) -> None:
    row = {"level": 1, "task_id": 1, "reference": REFERENCE, "kernel": "old", "mine": SOLUTION}
    assert list(faults(load(tmp_path, [row], candidate="mine")).values()) == [None]


def test_a_folder_that_is_not_empty_and_a_file_without_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="holds no row"):
        load(tmp_path, ["nothing"])
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "x").touch()
    with pytest.raises(RequestError, match="is no empty folder"):
        load(tmp_path, [])
    with pytest.raises(RequestError, match="is no empty folder"):
        imports.load(tmp_path / "set.jsonl", tmp_path / "out" / "x")
    with pytest.raises(RequestError, match="cannot read"):
        imports.load(tmp_path / "missing.jsonl", tmp_path / "new")
