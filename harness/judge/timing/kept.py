"""What was measured of a reference alone, kept from one run to the next.

Most of a baseline's time goes into compiling and timing `torch.compile`, and into what the device
can do. That is kept on disk, under a name that holds everything it depends on. It is not taken
on trust: eager is measured anew, as ever, and only if each mode takes what it took is the rest
used; claims are held against the new times alone.

Not covered: without a jail, a solution can write to these files; it gains a ratio over
`torch.compile` by that, and a share of the limit, nothing over eager.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import harness
from harness import ROOT, cpu, files, samples
from harness.judge import device
from harness.judge.context import Context
from harness.judge.process.fingerprint import Fingerprint
from harness.judge.subject import Subject
from harness.judge.timing import baseline
from harness.judge.timing.baseline import EAGER, Baseline

#: How far eager may be from what it took: two runs on one H200 differed by 0.08 %; a CPU is
#: shared with everything else.
TOLERANCE = {"cuda": 0.02, "cpu": 0.10}


def measure(
    context: Context,
    subject: Subject,
    *,
    modes: tuple[str, ...],
    flops: bool,
    note: Callable[[str], None] = lambda text: None,
) -> Baseline:
    """As `baseline.measure`, with what an earlier run has found where that still holds.

    Raises `BaselineError`.
    """
    anew = functools.partial(
        baseline.measure, context, subject, modes=modes, flops=flops, note=note
    )
    if context.settings.quick:  # which measures nothing but eager
        return anew()
    key = _key(context, subject, {"modes": modes, "flops": flops})
    file = context.cache.resolve() / "baselines" / f"{key}.json"
    known = _load(file) if context.settings.keep_baseline else None
    if known is not None:
        now = anew(known=True)
        if agree(known, now, within=TOLERANCE[context.device.type]):
            return with_kept(now, known)
        note("measured anew, since eager no longer takes what it took")
    found = anew()
    if found.timings and not found.notes:  # what failed may work the next time
        _save(file, found)
    return found


def agree(known: Baseline, now: Baseline, *, within: float) -> bool:
    """Whether eager takes in each mode what it took, to the share `within`."""
    return all(
        timing.reference_ms > 0
        and (name, mode) in known.timings
        and abs(known.timings[name, mode].reference_ms / timing.reference_ms - 1) <= within
        for (name, mode), timing in now.timings.items()
    )


def with_kept(now: Baseline, known: Baseline) -> Baseline:
    """What was measured now, and of what was known the rest; never eager, whatever it is called
    there: claims are held against that."""
    kept = {key: t for key, t in known.timings.items() if not key[0].startswith(EAGER)}
    noises = {mode: known.noise(mode) for _, mode in now.timings if now.noise(mode) is None}
    return dataclasses.replace(
        now,
        timings=now.timings | kept,
        kept=frozenset(name for name, _ in kept),
        bandwidth=known.bandwidth,
        flops_per_s=known.flops_per_s,
        noises={mode: noise for mode, noise in noises.items() if noise is not None},
    )


def _key(context: Context, subject: Subject, wanted: dict[str, Any]) -> str:
    """A digest of everything that a baseline depends on. On a GPU the host's cores are not in it:
    builds beside an evaluation take some of them, and eager is measured in any case."""
    threads, settings = torch.get_num_threads(), context.settings
    environment = device.environment(
        context.device, threads=settings.threads or threads, allow_tf32=settings.allow_tf32
    )
    host: dict[str, Any] = {"cores": sorted(os.sched_getaffinity(0))}
    if context.device.type == "cuda":
        environment, host = dataclasses.replace(environment, cpu_threads=0), {}
    facts = {
        "problem": [subject.problem.digest, subject.problem.path],
        "wanted": [subject.size, dataclasses.asdict(subject.renewal), wanted],
        "settings": settings.digest,
        "environment": dataclasses.asdict(environment),
        "cpu": [cpu.digest(), host],
        "harness": [harness.__version__, Fingerprint.of(ROOT).digests],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _save(file: Path, found: Baseline) -> None:
    """Keep `found`, whole or not at all; a cache that cannot be written keeps nothing."""
    content = {
        "timings": [
            {"baseline": name, "timing": dataclasses.asdict(timing)}
            for (name, _), timing in found.timings.items()
        ],
        "bandwidth": found.bandwidth,
        "flops_per_s": found.flops_per_s,
    }
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        files.replace(file, json.dumps(content).encode())


def _load(file: Path) -> Baseline | None:
    """What `_save` has kept; None where there is nothing, or something else."""
    try:
        content = json.loads(file.read_text())
        timings = {}
        for entry in content["timings"]:
            timing = samples.timing_of(entry["timing"])
            timings[str(entry["baseline"]), timing.mode] = timing
        flops = content["flops_per_s"]
        return Baseline(
            timings=timings,
            bandwidth=tuple((float(share), _rate(rate)) for share, rate in content["bandwidth"]),
            flops_per_s=None if flops is None else _rate(flops),
        )
    except (OSError, *samples.MALFORMED):
        return None


def _rate(value: Any) -> float:
    if not 0 < float(value) < math.inf:
        raise ValueError(f"{value} is no rate")
    return float(value)
