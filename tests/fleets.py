"""What tests of fleets share: a house of solutions that say what becomes of them."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import QUICK, TINY

from harness import results, run
from harness.config import Settings
from harness.records import Environment, Phase, Row, Status, Verdict

SCRIPT = Path(__file__).with_name("fake_judge.py")
ENVIRONMENT = Environment(
    device_name="Fake 1", torch="2.9", python="3.12", host="here", cpu_threads=1
)


def row_of(environment: Environment = ENVIRONMENT) -> Row:
    """A row that passed."""
    return Row(
        run_id="r",
        time="2026-01-01T00:00:00+00:00",
        problem="p",
        problem_digest="",
        solution="s",
        solution_digest="",
        size="full",
        dtype="float32",
        settings_digest="d",
        harness_version="0",
        schema_version=results.SCHEMA_VERSION,
        environment=environment,
        verdict=Verdict(status=Status.PASS, phase=Phase.DONE),
    )


@dataclass(kw_only=True)
class Fakes:
    """Problems and solutions in a folder, and judges that do not judge."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)

    def request(self, deeds: Mapping[str, str], **changes: Any) -> run.Request:
        """`deeds`: problem/solution -> what its fake judge does ("passes", "dies once", ...)."""
        for name, deed in deeds.items():
            problem = self.folder / "problems" / f"{name.split('/')[0]}.py"
            solution = self.folder / "solutions" / f"{name}.py"
            for path, text in ((problem, TINY), (solution, f"class ModelNew: pass  # {deed}")):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        return run.Request(
            settings=Settings(**(QUICK | self.settings)),
            problem_dir=self.folder / "problems",
            solution_dir=self.folder / "solutions",
            results_dir=self.folder / "results",
            cache_dir=self.folder / "cache",
            **changes,
        )

    def command(self, device_name: str = "Fake 1", **told: Any) -> tuple[str, ...]:
        """A fake judge's command; `refusal`: what it says in place of its hello."""
        house = self.folder / device_name
        house.mkdir(exist_ok=True)
        environment = dataclasses.replace(ENVIRONMENT, device_name=device_name)
        told |= {"environment": dataclasses.asdict(environment), "row": row_of(environment).flat()}
        (house / "house.json").write_text(json.dumps(told))
        return (sys.executable, "-S", str(SCRIPT), str(house))

    def journal(self, device_name: str = "Fake 1") -> list[list[str]]:
        """[problem/solution, judge's pid, its parent's pid] of each evaluation begun."""
        path = self.folder / device_name / "journal"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def begun(self) -> Counter[str]:
        """How often each solution was begun."""
        return Counter(line[0] for line in self.journal())


@dataclass
class Told:
    """An observer that keeps what it is told."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def begin(self, problem: str, solution: str, size: str) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, done: int, total: int) -> None:
        self.counts.append((done, total))

    def row(self, row: Row) -> None:
        self.rows.append(row)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def verdicts(rows: list[Row]) -> dict[str, str]:
    """problem/solution -> status."""
    return {f"{row.problem}/{row.solution}": row.verdict.status.value for row in rows}
