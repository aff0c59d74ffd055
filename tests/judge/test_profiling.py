"""Profiles: both sides in workers of their own; what a solution does wrong is a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import HONEST, TINY, Bench

from harness import cli
from harness.errors import RequestError
from harness.judge import profiling
from harness.judge.context import Context
from harness.judge.process.sandbox import WorkerLied, claimed
from harness.judge.profiling import Profile
from harness.judge.subject import Subject, prepare


def take(bench: Bench, source: str, mode: str | None = None) -> Profile:
    problem = bench.problem(TINY)
    solution = bench.solution(source, problem)
    return profiling.take(bench.context(), Subject(problem=problem, size="full"), solution, mode)


def test_both_sides_are_listed_in_the_mode_that_trains(bench: Bench) -> None:
    found = take(bench, HONEST.replace("** 2", ".square()").replace("(x - y) ", "(x - y)"))
    assert found.mode == "forward_backward"
    assert found.fault == ""
    for side in (found.reference, found.candidate):
        assert sum(kernel.share for kernel in side) == pytest.approx(1.0)
        assert [k.time_us for k in side] == sorted((k.time_us for k in side), reverse=True)
    assert "aten::square" in {kernel.name for kernel in found.candidate}
    assert "aten::square" not in {kernel.name for kernel in found.reference}


def test_a_solution_that_raises_leaves_the_reference_and_says_so(bench: Bench) -> None:
    found = take(bench, HONEST.replace("return", "raise KeyError('x')\n        return"), "forward")
    assert found.candidate == ()
    assert "KeyError" in found.fault
    assert found.reference


def test_a_mode_that_there_is_not_is_refused_before_anything_runs(bench: Bench) -> None:
    with pytest.raises(RequestError, match="no mode 'sideways'; it has forward, "):
        take(bench, HONEST, "sideways")


def test_a_process_of_its_own_repeats_what_the_worker_was_told(bench: Bench) -> None:
    """Nsight Compute's part, with a program that runs what it is given and says that it did."""
    source = HONEST.replace("return", "open('ran', 'a').write('x')\n        return")
    problem, context = bench.problem(TINY), bench.context()
    solution = bench.solution(source, problem)
    metric = "sm__warps_active.avg.pct_of_peak_sustained_active"
    with context.worker("nsight", salt=solution.digest) as worker:
        # In the worker's own folder, for it may see no other.
        written, program = worker.folder / "written", worker.folder / "ncu"
        written.write_text(f'"ID","Kernel Name","{metric}"\n"0","void f<int>()","25"\n')
        program.write_text(
            '#!/bin/sh\nwhile [ "$1" != -I ]\n'
            'do [ "$1" = --log-file ] && log=$2; last=$1; shift; done\n'
            f'"$last" "$@" || exit 1\n[ -s ran ] && cp {written} "$log"\n'
        )
        program.chmod(0o755)
        worker.ask("build", timeout_s=60, source=solution.source, file_name="mine.py")
        prepare(context, worker, Subject(problem=problem, size="full"))
        worker.ask("load", timeout_s=60, outputs=("output",))
        names = ["void f<int>(int)", "other"]
        what = {"side": "candidate", "mode": "forward_backward", "seed": 5, "names": names}
        answer = worker.ask("nsight", timeout_s=90, limit_s=60, ncu=str(program), **what).body
    assert answer["answer"]["figures"] == {"void f<int>(int)": {"occupancy": 0.25}, "other": None}


@pytest.mark.parametrize("claim", [[{}], [{"name": "x", "time_us": "soon"}], [3]])
def test_a_list_that_is_none_is_a_lie(claim: list[object]) -> None:
    with pytest.raises(WorkerLied), claimed():
        tuple(profiling._read(claim))  # type: ignore[arg-type]


def test_the_command_takes_a_size_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.py").write_text(TINY.replace("ROWS = 8", f"ROWS = {1 << 40}"))
    (tmp_path / "s.py").write_text(HONEST)
    asked: list[str] = []

    def take(context: Context, subject: Subject, *_: Any) -> Profile:
        asked.append(subject.size)
        raise RequestError("enough")

    monkeypatch.setattr(profiling, "take", take)
    call = ["profile", "--problem", str(tmp_path / "p.py"), "--solution", str(tmp_path / "s.py")]
    assert cli.main([*call, "--device", "cpu", "--size", "fit"]) == 2
    ((name, _, rows),) = [size.partition("=") for size in asked]
    assert (name, 2 <= int(rows) < 1 << 40) == ("ROWS", True)
