"""The benchmark of lean builds: whose sources it takes, what it writes, and what it makes of it."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from support import ROOT

from benchmarks import lean_builds

CPP = '''
from torch.utils.cpp_extension import load_inline
made = load_inline(name="x", cpp_sources="""{text}""", functions=["f"])
class ModelNew: pass
'''
GOOD = CPP.format(text="int f(int a) { return a; }")


def write(folder: Path, **sources: str) -> Path:
    for name, text in sources.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_only_solutions_that_can_build_something_are_taken(tmp_path: Path) -> None:
    plain, broken = "class ModelNew: pass", "class ModelNew(  # load_inline"
    folder = write(tmp_path / "them", good=GOOD, plain=plain, broken=broken, other="load_inline")
    write(folder / "level1", good=GOOD)
    found = {(one.origin, one.solution.name) for one in lean_builds.sources(folder)}
    assert found == {("them", "good.py"), ("them", "level1/good.py")}


def test_which_are_taken_hangs_on_their_names_alone(tmp_path: Path) -> None:
    names = [f"s{n}" for n in range(20)]
    one = write(tmp_path / "one", **dict.fromkeys(names, GOOD))
    two = write(tmp_path / "two", **dict.fromkeys(reversed(names), GOOD + "# other"))
    taken = [[s.solution.name for s in lean_builds.sources(place, 5)] for place in (one, two)]
    assert taken[0] == taken[1] != sorted(taken[0])
    assert len(taken[0]) == 5


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_from_folders_to_a_table_that_is_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One builds, one does not, one builds nothing when it is executed."""
    monkeypatch.chdir(ROOT)
    lazy = "import torch.utils.cpp_extension\nclass ModelNew: pass"
    mine = write(tmp_path / "mine", good=GOOD, bad=CPP.format(text="int f(int a) {"), lazy=lazy)
    output = tmp_path / "out" / "lean.csv"
    asked = [str(mine), "--output", str(output), "--full", "0"]
    assert lean_builds.main([*asked, "--budget", "-1"]) == 0
    assert "the budget is spent" in capsys.readouterr().out
    assert lean_builds.main(asked) == 0
    said = capsys.readouterr().out
    with output.open(newline="") as file:
        lines = {line["source"]: line for line in csv.DictReader(file)}
    told = {name: (line["lean"], line["status"]) for name, line in lines.items()}
    assert told == {
        "good.py": ("yes", "built"),
        "bad.py": ("", "compile_error"),
        "lazy.py": ("", "built"),
    }
    assert float(lines["good.py"]["lean_s"]) > 0
    assert "error:" in lines["bad.py"]["lean_error"]
    assert "mine: 3 sources, 1 built, 1 of them lean (100%), 1 compile_error" in said
    assert lean_builds.main(asked) == 0
    assert "of 3: " not in capsys.readouterr().out, "nothing is built again"


def line(**values: object) -> dict[str, str]:
    return dict.fromkeys(lean_builds.FIELDS, "") | {k: str(v) for k, v in values.items()}


def test_shares_are_of_what_builds_at_all_and_ratios_of_what_was_built_twice() -> None:
    both = {"status": "built", "full_status": "built"}
    lines = [
        line(origin="a", lean="yes", lean_s=20, full_s=80, **both),
        line(origin="a", lean="yes", lean_s=20, full_s=40, **both),
        line(origin="a", lean="yes", lean_s=30, status="built"),
        line(origin="b", lean="no", lean_s=100, full_s=80, **both),
        line(origin="b", lean="", status="compile_error", lean_s=100),
        line(origin="b", lean="", status="built", builds=0, lean_s=0),
    ]
    first, lean, other, a, b = lean_builds.summary(lines).splitlines()
    assert first == (
        "all: 6 sources, 4 built, 3 of them lean (75%), 1 compile_error, 1 nothing to build"
    )
    assert lean == (
        "built lean: 20.0 s in the median; 2 also with torch's headers, 60.0 s: 0.38 of the time "
        "(at most 0.50)"
    )
    assert other.startswith("built not lean: 100.0 s in the median; 1 also")
    assert (a[:29], b[:29]) == ("a: 3 sources, 3 built, 3 of t", "b: 3 sources, 1 built, 0 of t")
    odd = [line(origin="a", source="s", lean="yes", lean_s=1, full_s=1, full_status="timeout")]
    assert "not with torch's headers: s" in lean_builds.summary(odd)
