"""Kernels of reference and solution side by side: each in a worker of its own.

Covers: which kernels ran, how often, for how long, and on CUDA with how many registers and how
much shared memory, and what Nsight Compute adds. A solution's figures are its own claim; nothing
here is credited.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from harness.errors import ProblemError, RequestError
from harness.judge import build
from harness.judge.case import reference_of
from harness.judge.context import Context
from harness.judge.process.sandbox import FAILURES, Worker, WorkerFault, claimed
from harness.judge.subject import Subject, prepare
from harness.records import MODES, Solution

CALLS = 5  # profiled calls, after one that warms up
MOST_KERNELS = 500  # that a worker may list


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel, or on a CPU one operator. `calls` and `time_us` are per call of the model;
    `share` is of the side's time. From Nsight Compute, where it can be used: the shares of the peak
    throughput of memory and arithmetic, and the share of warps that are active."""

    name: str
    calls: float
    time_us: float
    share: float
    registers: int | None = None
    shared_bytes: int | None = None
    memory_share: float | None = None
    compute_share: float | None = None
    occupancy: float | None = None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Both sides in one mode. `fault`: why the solution has no kernels here; `nsight`: why
    Nsight Compute has no figures."""

    problem: str
    solution: str
    device_name: str
    size: str
    dtype: str
    mode: str
    reference: tuple[Kernel, ...]
    candidate: tuple[Kernel, ...]
    fault: str = ""
    nsight: str = ""


def take(context: Context, subject: Subject, solution: Solution, mode: str | None) -> Profile:
    """Profile both sides in `mode`; None: forward_backward, or forward where there is no more.

    Raises `RequestError` for a mode that the problem does not have, `ProblemError` where the
    reference is at fault.
    """
    problem = subject.problem
    told = _known(context, subject)
    known = MODES if told["outputs"] else ("forward",)
    mode = mode or known[-1]
    if mode not in known:
        raise RequestError(f"{problem.name} has no mode {mode!r}; it has {', '.join(known)}")
    try:
        with context.worker(f"{problem.name}.reference", salt="profile", trusted=True) as worker:
            prepare(context, worker, subject)
            reference, _ = _kernels(context, worker, "reference", mode)
    except FAILURES as error:
        text = f"the reference could not be profiled: {error}"
        raise ProblemError(text, path=problem.path) from error
    candidate: tuple[Kernel, ...] = ()
    refused = build.refusal(context, solution)
    fault, nsight = refused.message if refused else "", ""
    if not refused:
        try:
            candidate, nsight = _solution(context, subject, solution, told, mode)
        except FAILURES as error:
            fault = " ".join(str(error).split())
    return Profile(
        problem=problem.name,
        solution=solution.name,
        device_name=context.device.name,
        size=subject.size,
        dtype=context.settings.dtype,
        mode=mode,
        reference=reference,
        candidate=candidate,
        fault=fault,
        nsight=nsight,
    )


def _known(context: Context, subject: Subject) -> dict[str, Any]:
    """What a worker is told of the reference: paths of the outputs that it differentiates, and
    the buffers that are constants."""
    try:
        seed = subject.weights_seed
        reference = reference_of(context, subject.problem, subject.size, seed)
        known = {"outputs": reference.differentiated[0], "constants": reference.constants}
        reference.release()
    except torch.OutOfMemoryError as error:
        text = f"the reference does not fit the device at size {subject.size}"
        raise ProblemError(text, path=subject.problem.path) from error
    return known


def _solution(
    context: Context,
    subject: Subject,
    solution: Solution,
    told: dict[str, Any],
    mode: str,
) -> tuple[tuple[Kernel, ...], str]:
    settings = context.settings
    name = f"{subject.problem.name}--{solution.name}"
    with context.worker(name, salt=solution.digest) as worker:
        limit_s = settings.build_timeout_s
        worker.ask("build", timeout_s=limit_s, source=solution.source, file_name=solution.file_name)
        prepare(context, worker, subject)
        worker.ask("load", timeout_s=limit_s, outputs=told["outputs"], constants=told["constants"])
        return _kernels(context, worker, "candidate", mode)


def _kernels(
    context: Context, worker: Worker, side: str, mode: str
) -> tuple[tuple[Kernel, ...], str]:
    """The kernels of a side, and why they lack Nsight Compute's figures."""
    limit_s = context.settings.call_timeout_s
    what: dict[str, Any] = {"side": side, "mode": mode, "seed": secrets.randbits(48)}
    answer = worker.ask("kernels", timeout_s=limit_s, calls=CALLS, **what).body["answer"]
    with claimed():
        kernels = tuple(_read(answer["kernels"][:MOST_KERNELS]))
    if context.device.type != "cuda":
        return kernels, ""
    ncu = find_ncu(context)
    if ncu is None:
        return kernels, "ncu is not installed"
    limit_s = context.settings.build_timeout_s  # a new process that loads and replays everything
    names = [kernel.name for kernel in kernels]
    try:
        answer = worker.ask(
            "nsight", timeout_s=limit_s + 10, limit_s=limit_s, ncu=ncu, names=names, **what
        ).body["answer"]
    except WorkerFault as fault:
        return kernels, " ".join(str(fault).split())
    with claimed():
        return tuple(_with_figures(k, answer["figures"][k.name]) for k in kernels), ""


def find_ncu(context: Context) -> str | None:
    """Nsight Compute's command line, on PATH or in the CUDA toolkit."""
    beside = Path(context.tools.cuda_home or "/usr/local/cuda", "bin", "ncu")
    return shutil.which("ncu") or (str(beside) if beside.exists() else None)


def _with_figures(kernel: Kernel, claim: dict[str, Any] | None) -> Kernel:
    figures = {name: float(value) for name, value in (claim or {}).items()}
    return replace(
        kernel,
        memory_share=figures.get("memory_share"),
        compute_share=figures.get("compute_share"),
        occupancy=figures.get("occupancy"),
    )


def _read(claims: list[dict[str, Any]]) -> Iterator[Kernel]:
    total = sum(max(0.0, float(claim["time_us"])) for claim in claims) or 1.0
    for claim in claims:
        time_us = max(0.0, float(claim["time_us"]))
        registers, shared = (claim[name] for name in ("registers", "shared_bytes"))
        yield Kernel(
            name=str(claim["name"])[:1000],
            calls=float(claim["calls"]),
            time_us=time_us,
            share=time_us / total,
            registers=None if registers is None else int(registers),
            shared_bytes=None if shared is None else int(shared),
        )
