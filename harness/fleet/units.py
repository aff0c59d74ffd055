"""What travels to a judge, and back: plain JSON, source as text, digests verified at arrival.

`Terms` are sent once, when a judge starts: everything about a run but what is evaluated. A
`Unit` is a problem and some of its solutions. What a judge says is one of

    {"hello": {environment}}          ready for units
    {"begin": [problem, solution, size]}               this solution's turn
    {"note": text}, {"warn": text}
    {"row": flat row, "known": false, "samples": base64 or None, "log": text or None}
    {"row": flat row, "known": true}                   of an earlier run: it is not measured again
    {"done": true}                                     the unit is finished
    {"refused": {"kind": name of an error, "message": text}}
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
from harness import identity, results
from harness.config import Settings
from harness.errors import HarnessError, MachineError, ProblemError, RequestError
from harness.records import (
    Environment,
    Phase,
    Problem,
    Row,
    Solution,
    Status,
    Value,
    Verdict,
)
from harness.run import Job, Request

Message = dict[str, Any]
REFUSALS: dict[str, type[HarnessError]] = {
    error.__name__: error for error in (RequestError, MachineError)
}
#: Of a `Request`: what every judge has to know.
FLAGS = ("fresh", "build_only", "require_backward", "self_check")


class Damaged(Exception):
    """What arrived is not what was sent."""


def terms(request: Request, run_id: str) -> Message:
    """What a judge is told at its start. `cache_dir` None: one of the node's own."""
    return {
        "settings": dataclasses.asdict(request.settings),
        "flags": {name: getattr(request, name) for name in FLAGS},
        "cache_dir": str(request.cache_dir),
        "run_id": run_id,
    }


def request_of(told: Message, output: Path) -> Request:
    """The request that `terms` were made of, with its rows in a file of the judge's own."""
    return Request(
        settings=Settings(**told["settings"]),
        cache_dir=Path(told["cache_dir"] or node_cache()),
        output=output,
        **told["flags"],
    )


def node_cache() -> Path:
    """Where a node of a cluster keeps its builds."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kernel-harness"


def pack(job: Job, known: Sequence[Mapping[str, Value]]) -> Message:
    """A unit. `known`: flat rows of earlier runs that may settle some of it."""
    content = {
        "problem": dataclasses.asdict(job.problem),
        "solutions": [dataclasses.asdict(solution) for solution in job.solutions],
        "fault": job.fault and [job.fault.reason, job.fault.path, job.fault.line],
        "known": list(known),
    }
    text = json.dumps(content)
    return {"unit": text, "digest": hashlib.sha256(text.encode()).hexdigest()}


def unpack(message: Message) -> tuple[Job, list[dict[str, Value]]]:
    """What `pack` was given. Raises `Damaged` where a digest does not agree."""
    text = str(message["unit"])
    if hashlib.sha256(text.encode()).hexdigest() != message["digest"]:
        raise Damaged("the unit's digest does not agree with its text")
    content = json.loads(text)
    problem = Problem(**content["problem"])
    solutions = [Solution(**_tuples(one)) for one in content["solutions"]]
    for name, source, digest in [(one.name, one.source, one.digest) for one in solutions] + [
        (problem.name, problem.source, problem.digest)
    ]:
        if digest and digest != hashlib.sha256(source.encode()).hexdigest()[:16]:
            raise Damaged(f"{name}: the digest does not agree with the source")
    fault = content["fault"]
    fault = fault and ProblemError(fault[0], path=fault[1], line=fault[2])
    return Job(problem=problem, solutions=solutions, fault=fault), content["known"]


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}


def lost_row(
    request: Request,
    run_id: str,
    problem: Problem,
    solution: Solution | None,
    *,
    environment: Environment,
    size: str,
    message: str,
) -> Row:
    """The row of a solution (None: of the reference as its own) that nobody could evaluate."""
    return Row(
        run_id=run_id,
        time=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        problem=problem.name,
        problem_digest=problem.digest,
        solution=solution.name if solution else identity.NAME,
        solution_digest=solution.digest if solution else "",
        size=size,
        dtype=request.settings.dtype,
        settings_digest=request.settings.digest,
        harness_version=harness.__version__,
        schema_version=results.SCHEMA_VERSION,
        environment=environment,
        settings=request.settings.told,
        verdict=Verdict(status=Status.HARNESS_ERROR, phase=Phase.FIND, message=message),
    )
