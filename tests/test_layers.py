"""Imports point down only, and the judge never imports a worker."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HARNESS = Path(__file__).resolve().parent.parent / "harness"

#: Each line may import from lines below it, never from its own line or above.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli", "api"),
    ("commands.tools", "commands.options", "commands.terminal"),
    ("commands.rows", "commands.suites"),
    ("commands.explain", "commands.watch", "fleet.host", "fleet.cluster"),
    (
        "commands.doctor",
        "commands.fitness",
        "report.page",
        "report.picture",
        "report.profile_tables",
        "fleet.fleet",
        "fleet.judging",
    ),
    ("fleet.writer", "report.boards"),
    ("fleet.units",),
    ("run",),
    ("course", "recompute", "report.compare_tables", "report.metrics_tables", "report.plots"),
    ("commands.doctor_gpu", "commands.doctor_tools"),
    ("report.tables", "judge.evaluate", "judge.ahead", "judge.profiling"),
    ("judge.build", "judge.process.cores", "judge.performance"),
    ("judge.verdicts",),
    ("judge.rows", "judge.checking.checks", "judge.audit", "judge.fitness.lint"),
    ("judge.case",),
    ("judge.timing.kept",),
    ("judge.fitness.outcomes",),
    ("judge.fitness.mutants", "judge.checking.stages", "judge.checking.timed"),
    ("judge.checking.survey",),
    ("judge.checking.traits",),
    ("judge.checking.passes", "judge.checking.rules"),
    ("judge.timing.baseline",),
    ("judge.timing.measure", "judge.timing.peaks", "judge.timing.limit"),
    ("judge.timing.epochs", "judge.timing.unseen"),
    (
        "judge.timing.monitor",
        "judge.timing.stopwatch",
        "judge.process.watermark",
        "judge.timing.clock",
        "judge.timing.dependence",
        "judge.fitness.skip",
    ),
    ("judge.subject",),
    ("judge.reference", "judge.context"),
    ("judge.device",),
    ("judge.process.headstart", "judge.timing.claims"),
    ("judge.process.toolchain", "judge.process.sandbox", "judge.checking.compare"),
    ("judge.process.launching",),
    ("judge.process.forkserver", "judge.process.forker"),
    ("judge.checking.hints", "judge.checking.error_model"),
    ("judge.checking.causes",),
    (
        "judge.checking.elements",
        "judge.process.warden",
        "judge.process.isolation",
        "judge.process.fingerprint",
        "judge.process.usage",
    ),
    ("report.exports",),
    ("report.comparison", "commands.scaffold", "report.metrics", "commands.imports"),
    ("commands.result_sets",),
    ("fit",),
    ("report.changes",),
    ("report.sides",),
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
    ("shared.player",),
    ("shared.binding", "shared.buffers"),
    ("shared.channel", "shared.problem", "shared.trial", "syntax"),
    ("shared.encoding", "shared.problem_file"),
    ("shared.draws", "shared.constants"),
    ("shared.mixing",),
    ("shared.trees",),
    ("meanings",),
    ("shared.cuda_ipc", "records", "shared.dispatch", "shared.numerics"),
    ("timings",),
    ("commands.arguments", "fleet.slots", "fleet.backlog", "fleet.devices"),
    ("stats", "errors", "cpu", "shared.disk", "commands.findings", "fleet.wire", "nvml", "wording"),
    (
        "__init__",
        "commands.__init__",
        "fleet.__init__",
        "judge.__init__",
        "judge.checking.__init__",
        "judge.fitness.__init__",
        "judge.process.__init__",
        "judge.timing.__init__",
        "report.__init__",
        "shared.__init__",
        "worker.__init__",
    ),
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
    assert not calls or name_of(path) == "commands.terminal"
