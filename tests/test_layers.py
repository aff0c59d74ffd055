"""Imports point down only, and the judge never imports a worker."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HARNESS = Path(__file__).resolve().parent.parent / "harness"

#: Each line may import from lines below it, never from its own line or above.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli", "api"),
    ("commands", "options", "terminal"),
    ("commands_rows", "suites"),
    ("explain", "watch", "host", "cluster"),
    ("doctor", "fitness", "page", "picture", "report_profile", "fleet", "judging"),
    ("writer", "boards"),
    ("units",),
    ("run",),
    ("course", "recompute", "report_compare", "report_metrics", "plots"),
    ("doctor_gpu", "doctor_tools"),
    ("report", "judge.evaluate", "judge.ahead", "judge.profiling"),
    ("judge.build", "judge.cores", "judge.performance"),
    ("judge.verdicts",),
    ("judge.rows", "judge.checks", "judge.audit", "judge.lint"),
    ("judge.case",),
    ("judge.kept",),
    ("judge.outcomes",),
    ("judge.mutants", "judge.stages", "judge.timed"),
    ("judge.survey",),
    ("judge.traits",),
    ("judge.passes", "judge.rules"),
    ("judge.baseline",),
    ("judge.measure", "judge.peaks", "judge.limit"),
    ("judge.epochs", "judge.unseen"),
    (
        "judge.monitor",
        "judge.stopwatch",
        "judge.watermark",
        "judge.clock",
        "judge.dependence",
        "judge.skip",
    ),
    ("judge.subject",),
    ("judge.reference", "judge.context"),
    ("judge.device",),
    ("judge.headstart", "judge.claims"),
    ("judge.toolchain", "judge.sandbox", "judge.compare"),
    ("judge.launching",),
    ("judge.forkserver", "judge.forker"),
    ("judge.hints", "judge.error_model"),
    ("judge.causes",),
    ("judge.elements", "judge.warden", "judge.isolation", "judge.fingerprint", "judge.usage"),
    ("exports",),
    ("comparison", "scaffold", "metrics", "imports"),
    ("result_sets",),
    ("fit",),
    ("changes",),
    ("sides",),
    ("results", "samples", "catalog", "footprint", "identity"),
    ("lines", "files", "source", "config"),
    ("setting_rules",),
    ("worker.__main__", "worker.replay", "worker.preload"),
    ("worker.session",),
    ("worker.session_timing", "worker.session_profiling"),
    ("worker.session_state",),
    ("worker.timing", "worker.memory", "worker.nsight"),
    ("worker.readings",),
    ("worker.input_sets",),
    ("worker.meters", "worker.pool"),
    ("worker.calls", "worker.loading", "worker.building"),
    ("worker.provenance", "worker.capability", "worker.kernels", "worker.libraries"),
    ("worker.read_kernel",),
    ("worker.failed",),
    ("worker.faults", "worker.headers", "worker.diagnosis"),
    ("player",),
    ("binding", "buffers"),
    ("channel", "problem", "trial", "syntax"),
    ("encoding", "problem_file"),
    ("draws", "constants"),
    ("mixing",),
    ("trees",),
    ("meanings",),
    ("cuda_ipc", "records", "dispatch"),
    ("timings",),
    ("arguments", "slots", "backlog", "devices"),
    ("stats", "errors", "cpu", "disk", "findings", "wire", "nvml", "wording"),
    ("__init__", "judge.__init__", "worker.__init__"),
)
#: The package's face loads the interface when it is asked for; nothing else may look up.
FACE = {"__init__": {"api", "config"}}
RANK = {module: rank for rank, line in enumerate(LAYERS) for module in line}


def modules() -> list[Path]:
    return sorted(HARNESS.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(HARNESS).with_suffix("").parts)


def imports(path: Path) -> set[str]:
    """The harness modules that a file imports, at any depth of it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    inner = {n.removeprefix("harness.") for n in found if n.startswith("harness.")}
    return {n for n in inner if n in RANK}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_down(path: Path) -> None:
    name = name_of(path)
    assert name in RANK, f"{name} has no place in LAYERS"
    wrong = {o for o in imports(path) - FACE.get(name, set()) if RANK[o] <= RANK[name]}
    assert not wrong, f"{name} imports upwards: {sorted(wrong)}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_judge_and_worker_never_import_each_other(path: Path) -> None:
    side = name_of(path).split(".")[0]
    other = {"judge": "worker", "worker": "judge"}.get(side)
    assert not [n for n in imports(path) if other and n.startswith(f"{other}.")]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_print_only_in_terminal(path: Path) -> None:
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert not calls or name_of(path) == "terminal"
