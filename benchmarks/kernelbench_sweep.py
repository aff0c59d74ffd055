"""A folder of problem files, each in a fresh process: does it load, draw, run and go back?

    python -m benchmarks.kernelbench_sweep FOLDER [--device cuda] [--size fit] [--lint]

Writes one line a problem to NAME.csv as it is known, and NAME.md at the end. A crash, an
exhausted memory or a hang of one problem ends that problem only; `--resume` goes on with a
CSV that is there. What is asked of each: load, make the model, draw inputs, forward, forward
again from the same seed (is it deterministic), backward where it can be. With `--lint`, mutants
of the reference too; with `--self-check`, the whole evaluation with the reference as solution.
`--jobs` examines several problems at once: not for a self-check that times. What a device has no
room for beside others is examined again alone.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import multiprocessing
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from harness import catalog, config, fit, identity, run
from harness.config import Settings
from harness.errors import HarnessError, ProblemError
from harness.judge import device
from harness.judge.fitness import lint
from harness.judge.fitness.outcomes import DOUBTFUL, Outcome
from harness.judge.reference import Reference
from harness.records import Row
from harness.shared.binding import NoBackward
from harness.shared.draws import Draw, GradDraw
from harness.shared.problem import FULL, Instance
from harness.shared.trees import walk_tensors
from harness.source import read_problem

COLUMNS = (
    *("problem", "size", "outcome", "backward", "deterministic", "finite", "input_mib"),
    *("output", "lint", "lint_notes", "self_check", "seconds", "reason"),
)
#: The order of the steps; a problem that is killed has reached one of them.
STEPS = ("load", "size", "model", "draw", "forward", "backward", "lint", "self-check", "done")


def main(arguments: list[str]) -> int:
    """The table; exit status 1 where a problem failed."""
    options = _options(arguments)
    found = catalog.find_problems(options.folder)
    known = {name: path for name, path in found.items() if re.search(options.k, name)}
    chosen = list(known.items())[options.start :: options.every]
    done = _read(options.output) if options.resume else []
    names = {line["problem"] for line in done}
    left = [(name, path) for name, path in chosen if name not in names]
    with options.output.open("a" if done else "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not done:
            writer.writeheader()
        for line in _lines(left, options):
            writer.writerow(line)
            file.flush()
            done.append(line)
            name, outcome = line["problem"], line["outcome"]
            print(f"{len(done):4} {name}: {outcome} {line['lint']} {line['self_check']}")
            sys.stdout.flush()
    done.sort(key=lambda line: list(found).index(line["problem"]))
    text = _markdown(done, options)
    options.output.with_suffix(".md").write_text(text, encoding="utf-8")
    return 0 if all(line["outcome"] == "ok" for line in done) else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    parser.add_argument("folder", type=Path, help="a tree of problem files")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--size", default=FULL, help="full (as written), fit, or another")
    parser.add_argument("--fit-ms", type=float, help="of a forward, for --size fit: lint runs many")
    parser.add_argument("--lint", action="store_true", help="mutants of each reference as well")
    parser.add_argument("--self-check", action="store_true", help="evaluate each against itself")
    parser.add_argument("--config", help="preset of the self-check")
    parser.add_argument("--jobs", type=int, default=1, help="problems at once")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds a problem")
    parser.add_argument("-k", default="", help="a regular expression that names have to hold")
    parser.add_argument("--start", type=int, default=0, help="first problem, from 0")
    parser.add_argument("--every", type=int, default=1, help="take every Nth: a sample, a shard")
    parser.add_argument("--resume", action="store_true", help="keep the lines that are there")
    parser.add_argument("--output", type=Path, default=Path("kernelbench_sweep.csv"))
    return parser.parse_args(arguments)


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _lines(
    problems: list[tuple[str, Path]], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """The line of each problem, as it is known."""
    crowded: list[tuple[str, Path]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        tasks = {pool.submit(_in_a_process, *one, options): one for one in problems}
        for task in as_completed(tasks):
            if task.result()["outcome"] == "out_of_memory" and options.jobs > 1:
                crowded.append(tasks[task])
            else:
                yield task.result()
    for one in crowded:
        yield _in_a_process(*one, options)


# --- one problem ----------------------------------------------------------------------------------


def _in_a_process(name: str, path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What is known of a problem when its process ends, by itself or at the limit."""
    line: dict[str, Any] = dict.fromkeys(COLUMNS, "") | {"problem": name, "size": options.size}
    server = multiprocessing.get_context("forkserver")  # imports once, and never touches the GPU
    server.set_forkserver_preload(["torch._dynamo", "harness.run", "harness.judge.fitness.lint"])
    ours, theirs = server.Pipe(duplex=False)
    process = server.Process(target=_examine, args=(theirs, name, path, options))
    began, step = time.monotonic(), STEPS[0]
    process.start()
    theirs.close()
    try:
        while ours.poll(max(0.0, options.time_limit - (time.monotonic() - began))):
            found = ours.recv()
            step = found.pop("step")
            line |= found
        line |= {"outcome": "timeout", "reason": f"{step}: over {options.time_limit:g} s"}
        process.kill()
    except EOFError:
        process.join()
        if step != STEPS[-1] and not line["outcome"]:
            line |= {"outcome": "crash", "reason": f"{step}: exit code {process.exitcode}"}
    process.join()
    return line | {"seconds": f"{time.monotonic() - began:.1f}"}


def _examine(wire: Connection, name: str, path: Path, options: argparse.Namespace) -> None:
    """Step by step; what is found is sent at once."""
    try:
        for step, found in _steps(name, path, options):
            wire.send({"step": step, **found})
        wire.send({"step": STEPS[-1], "outcome": "ok"})
    except torch.OutOfMemoryError as error:
        wire.send({"step": "", "outcome": "out_of_memory", "reason": _short(error)})
    except HarnessError as error:
        text = _short(error).replace(f"{path}", path.name)
        wire.send({"step": "", "outcome": "reference_error", "reason": text})


def _steps(name: str, path: Path, options: argparse.Namespace) -> Any:
    """(step that begins, what is known before it)."""
    where = device.choose(options.device).torch
    dtype = getattr(torch, options.dtype)
    source = read_problem(name, path).source
    yield "size", {}
    size = options.size
    if size == fit.FIT:
        budget = fit.budget_of(where)
        if options.fit_ms:
            budget = fit.Cost(bytes=budget.bytes, forward_s=options.fit_ms / 1e3)
        size = fit.fitted(source, str(path), dtype=dtype, device=where, budget=budget)
    yield "model", {"size": size}
    instance = Instance(source=source, path=str(path), size=size, dtype=dtype, device=where)
    reference = Reference(instance, weights_seed=1)
    yield "draw", {}
    inputs = [tensor for _, tensor in walk_tensors(instance.inputs(Draw(seed=1)), "")]
    size_mib = sum(t.numel() * t.element_size() for t in inputs) / 2**20
    del inputs
    yield "forward", {"input_mib": f"{size_mib:.1f}"}
    found = _forward(reference)
    yield "backward", found
    found = {"backward": _backward(reference)}
    if options.lint:
        yield "lint", found
        found = _lint(reference)
    if options.self_check:
        yield "self-check", found
        found = {"self_check": _self_check(path, size, options)}
    yield "done", found


def _forward(reference: Reference) -> dict[str, str]:
    first = reference.call(Draw(seed=1))
    leaves = dict(walk_tensors(first.output, "output"))
    shapes = ", ".join(f"{tuple(t.shape)}" for t in list(leaves.values())[:3])
    finite = all(bool(t.isfinite().all()) for t in leaves.values())
    del first
    again = dict(walk_tensors(reference.call(Draw(seed=1)).output, "output"))
    alike = all(torch.equal(leaves[p].nan_to_num(), again[p].nan_to_num()) for p in leaves)
    return {"output": shapes, "finite": _word(finite), "deterministic": _word(alike)}


def _backward(reference: Reference) -> str:
    try:
        result = reference.call(Draw(seed=1), GradDraw(seed=1))
    except NoBackward:
        return "not differentiable"
    except ProblemError as error:
        return f"eager cannot: {_short(error).partition('failed: ')[2][:120]}"
    missing = sum(grad is None for grad in result.grads.values())
    return f"{len(result.grads) - missing} gradients" + (f", {missing} None" if missing else "")


def _lint(reference: Reference) -> dict[str, str]:
    findings = lint.lint(
        reference, Settings(device=reference.instance.device.type, require_backward=False)
    )
    bad = [f for f in findings if f.outcome in DOUBTFUL]
    passes = [f for f in bad if f.outcome is Outcome.PASSES]
    notes = [f"{f.outcome.value}: {f.mutant} ({f.part})" for f in (passes + bad)[:4]]
    doubtful = f"doubtful ({len(bad)})" if bad else "fit"
    verdict = f"NOT FIT ({len(passes)})" if passes else doubtful
    return {"lint": verdict, "lint_notes": "; ".join(dict.fromkeys(notes))}


def _self_check(path: Path, size: str, options: argparse.Namespace) -> str:
    given = {"device": options.device, "dtype": options.dtype, "size": size}
    with tempfile.TemporaryDirectory() as folder:
        request = run.Request(
            settings=config.load(options.config, given),
            problem=str(path),
            problem_dir=path.parent,
            results_dir=Path(folder),
            self_check=True,
        )
        (row,) = run.execute(request, run.Silent())
    told = [*identity.complaints(row)] or [row.verdict.message, *_speedups(row)]
    text = "; ".join(part for part in (*told, " ".join(row.flags)) if part)
    return row.verdict.status.value + (f": {text}" if text else "")


def _speedups(row: Row) -> Iterator[str]:
    for mode, result in row.modes.items():
        if None not in (result.speedup, result.low, result.high):
            yield f"{mode} {result.speedup:.3f} ({result.low:.3f} to {result.high:.3f})"


def _word(yes: bool) -> str:
    return "yes" if yes else "no"


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


# --- the table ------------------------------------------------------------------------------------


def _markdown(lines: list[dict[str, Any]], options: argparse.Namespace) -> str:
    where = device.choose(options.device).name
    today = datetime.datetime.now(datetime.timezone.utc).date()
    counts = Counter(line["outcome"] for line in lines)
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    kept = [c for c in COLUMNS if c != "seconds" and any(line[c] for line in lines)]
    rows = [kept, ["---"] * len(kept)]
    rows += [[str(line[c]).replace("|", "\\|") for c in kept] for line in lines]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"{len(lines)} problems on {where}, {today}, size {options.size}: {told}.\n\n{table}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
