"""Rows -> the files that KernelBench's own scripts read.

    FOLDER/level1/eval_results.json     problem number -> samples: compiled, correctness, runtime
    FOLDER/timing/DEVICE/baseline_time_torch.json and
    FOLDER/timing/DEVICE/baseline_time_torch_compile_inductor_default.json (or another mode;
    ..._torch_compile_best.json where rows had several)
                                        level -> problem file -> mean and spread of the reference

Times are milliseconds, as in KernelBench's own files. What is `correct` is what this harness
credits: a row that is `not_exercised` or `rejected` is not, and `metadata` holds the verdict. A
`mean` is the typical time that the row states (a median over epochs); spread and trials are those
of the raw samples, where they are kept. The `speedup` in `metadata` is the row's own, of both sides
interleaved: a ratio of two such means differs from it where times are unsteady.

The reference's time is that of a credited row, of a self-check first: one that was rejected may
have slowed the reference down, and every other sample would gain. KernelBench's analysis leaves
problems out of `fast_p` that have no such time, so `Exported` names them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import catalog, files, identity, samples
from harness.errors import MachineError, RequestError
from harness.records import Phase, Status, Timing
from harness.report.metrics import LEFT_OUT, PlainRow

#: Phases in which a source has not become a ModelNew yet, however it ended there.
_NOT_COMPILED = (Phase.FIND.value, Phase.BUILD.value)
EAGER, COMPILED = "baseline_time_torch", "baseline_time_torch_compile"
#: In the settings of a row, the modes of torch.compile; without it, `default` alone.
_MODES = re.compile(r"\bcompile_baseline=(\S+)")


@dataclass(kw_only=True)
class Exported:
    """Files written; rows left out, by why; problems without a time of the reference."""

    files: list[Path] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    untimed: list[str] = field(default_factory=list)

    def leave_out(self, why: str) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + 1


def kernelbench(rows: Iterable[PlainRow], folder: Path, raw: Sequence[Path]) -> Exported:
    """Write `rows`, as `results.plain` gives them; `raw`: the folders of raw samples.

    Raises `RequestError` for rows of several devices, dtypes or sizes of one problem, or none that
    has a level and a number; `MachineError` where nothing can be written.
    """
    done, kept, checks = Exported(), [], []
    for row in rows:
        why = _unfit(row)
        if why == identity.NAME:
            checks.append(row)
        if why:
            done.leave_out(why)
        else:
            kept.append(row)
    if not kept:
        told = ", ".join(f"{count} {why}" for why, count in done.left_out.items()) or "no rows"
        raise RequestError(f"nothing to export: {told}")
    places = sorted({f"{row['device_name']}, {row['dtype']}" for row in [*kept, *checks]})
    if len(places) > 1:
        raise RequestError(f"KernelBench's files are of one device: these are {'; '.join(places)}")
    results: dict[str, dict[str, list[Any]]] = {}
    for row in sorted(kept, key=lambda row: catalog.sample_of(str(row["solution"])) is None):
        level, number = _place(row)
        entries = results.setdefault(level, {}).setdefault(str(number), [])
        entries.append(_entry(row, _sample_id(row, entries), _forward(row, raw)))
    times: dict[str, dict[str, dict[str, Any]]] = {}
    references = _references(kept, checks)
    for row in references.values():
        _add_times(times, row, _forward(row, raw))
    done.untimed = sorted({str(row["problem"]) for row in kept} - set(references))
    try:
        for level, found in results.items():
            ordered = dict(sorted(found.items(), key=lambda item: int(item[0])))
            _write(done, folder / level / "eval_results.json", ordered)
        device = files.safe_name(str(kept[0]["device_name"]))
        for name, by_level in times.items():
            _write(done, folder / "timing" / device / f"{name}.json", by_level)
    except OSError as error:
        raise MachineError(f"cannot write {folder}: {error.strerror}") from None
    return done


def _unfit(row: PlainRow) -> str:
    """Why a row has no place in KernelBench's files; "" where it has one."""
    if row["solution"] == identity.NAME:
        return identity.NAME
    if row["status"] in {status.value for status in LEFT_OUT}:
        return str(row["status"])
    name = str(row["problem"])
    known = catalog.level_of(name) is not None and catalog.number_of(name) is not None
    return "" if known else "of a problem without level and number"


def _place(row: PlainRow) -> tuple[str, int]:
    name = str(row["problem"])
    number = catalog.number_of(name)
    assert number is not None, "rows without are left out"
    return f"level{catalog.level_of(name)}", number


def _references(rows: Iterable[PlainRow], checks: Iterable[PlainRow]) -> dict[str, PlainRow]:
    """Problem -> the row that the reference's time is taken from, which is of the samples' size.
    Raises `RequestError` where credited samples of one problem have several sizes."""
    sizes: dict[str, set[str]] = {}
    credited = [row for row in rows if row["forward_speedup"] is not None]
    for row in credited:
        sizes.setdefault(str(row["problem"]), set()).add(str(row["size"]))
    for name, found in sizes.items():
        if len(found) > 1:
            listed = ", ".join(sorted(found))
            raise RequestError(f"KernelBench's files know one size of {name}: these are {listed}")
    chosen: dict[str, PlainRow] = {}
    for row in [*(check for check in checks if check["forward_speedup"] is not None), *credited]:
        name, size = str(row["problem"]), str(row["size"])
        if size in sizes.get(name, {size}):
            chosen.setdefault(name, row)
    return chosen


def _sample_id(row: PlainRow, entries: Iterable[Mapping[str, Any]]) -> int:
    """The number of a sample; where it has none, or `entries` has it, the first that is free:
    KernelBench's analysis stops at a number that is there twice."""
    own, taken = catalog.sample_of(str(row["solution"])), {e["sample_id"] for e in entries}
    free = next(number for number in itertools.count() if number not in taken)
    return free if own is None or own in taken else own


def _forward(row: PlainRow, raw: Sequence[Path]) -> Timing | None:
    """The raw samples of the row's forward, where they are kept."""
    name = samples.name_of(str(row["run_id"]), str(row["problem"]), str(row["solution"]))
    for folder in raw:
        with contextlib.suppress(RequestError):
            return samples.load(samples.file_for(name, folder)).get("forward")
    return None


def _entry(row: PlainRow, sample_id: int, timing: Timing | None) -> dict[str, Any]:
    status = Status(row["status"])
    right = row["forward_speedup"] is not None or status in (Status.PASS, Status.FORWARD_ONLY)
    runtime = row["forward_solution_ms"] if right else None
    units = (
        []
        if timing is None
        else [t for e in timing.epochs for b in e.blocks for t in b.solution_ms]
    )
    stats = _spread(float(runtime), units) if runtime else {}
    metadata = {
        "hardware": row["device_name"],
        "solution": row["solution"],
        "verdict": row["status"],
        "message": row["message"] or "",
        "flags": str(row["flags"] or "").split(),
        "speedup": row["forward_speedup"],
    }
    return {
        "sample_id": sample_id,
        "compiled": row["phase"] not in _NOT_COMPILED,
        "correctness": right,
        "metadata": metadata,
        "runtime": float(runtime) if runtime else -1.0,
        "runtime_stats": stats,
    }


def _add_times(
    times: dict[str, dict[str, dict[str, Any]]], row: PlainRow, timing: Timing | None
) -> None:
    """The reference's own times."""
    reference, compiled = row["forward_reference_ms"], row["forward_compiled_speedup"]
    level, name = _place(row)[0], str(row["problem"]).rpartition("/")[2] + ".py"
    place = {"hardware": row["device_name"], "device": "cuda:0" if row["cuda"] else "cpu"}
    units = (
        []
        if timing is None
        else [t for e in timing.epochs for b in e.blocks for t in b.reference_ms]
    )
    eager = _spread(float(reference), units) | place
    times.setdefault(EAGER, {}).setdefault(level, {})[name] = eager
    if compiled:
        mean = _spread(float(reference) / float(compiled), []) | place
        times.setdefault(_compiled_name(row), {}).setdefault(level, {})[name] = mean


def _compiled_name(row: PlainRow) -> str:
    """The file of torch.compile's times, as KernelBench calls it; of several modes the row knows
    the best alone."""
    found = _MODES.search(str(row["settings"] or ""))
    modes = found[1].split(",") if found else ["default"]
    return f"{COMPILED}_inductor_{modes[0]}" if len(modes) == 1 else f"{COMPILED}_best"


def _spread(typical_ms: float, units: list[float]) -> dict[str, Any]:
    """KernelBench's keys, as far as they are known; `mean` is the row's typical time."""
    found: dict[str, Any] = {"mean": typical_ms}
    if len(units) > 1:
        spread = statistics.stdev(units)
        found |= {"std": spread, "min": min(units), "max": max(units), "num_trials": len(units)}
    return found


def _write(done: Exported, path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, f"{json.dumps(content, indent=4, allow_nan=False)}\n".encode())
    done.files.append(path)


FORMATS = {"kernelbench": kernelbench}
