"""Strict isolation: what a worker can see and change in it, and what is said where it cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import HONEST, Bench

from harness import ROOT, run
from harness.config import Settings
from harness.errors import MachineError
from harness.judge.process import isolation
from harness.judge.process.fingerprint import Fingerprint
from harness.judge.process.sandbox import WorkerFault

strict = pytest.mark.skipif(isolation.unusable() is not None, reason=str(isolation.unusable()))


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Puts a script in the place of bubblewrap ("": none)."""

    def place(script: str) -> None:
        if script:
            (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        isolation.unusable.cache_clear()

    yield place
    isolation.unusable.cache_clear()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("", "apt install bubblewrap"),
        ("echo 'bwrap: No permissions' >&2\necho more\nexit 1", "bwrap: No permissions"),
        ("exit 7", "status 7"),
    ],
)
def test_strict_that_cannot_be_had_is_told_in_a_line_and_auto_goes_without(
    untried: Callable[[str], None], script: str, says: str
) -> None:
    untried(script)
    assert isolation.choose("auto") == isolation.PROCESS
    assert isolation.choose("default") == isolation.PROCESS
    with pytest.raises(MachineError, match="--sandbox strict cannot be had here") as caught:
        run.make_context(run.Request(settings=Settings(device="cpu", sandbox="strict")))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 3


def test_auto_takes_what_works(untried: Callable[[str], None]) -> None:
    untried("exit 0")
    assert isolation.choose("auto") == isolation.choose("strict") == isolation.BUBBLEWRAP
    assert isolation.choose("default") == isolation.PROCESS


FACTS = """
import json, os, signal, socket
from pathlib import Path
facts = {"pids": [int(n) for n in os.listdir("/proc") if n.isdigit()],
         "temporary": os.listdir("/tmp"), "shared": os.listdir("/dev/shm"),
         "interfaces": [name for _, name in socket.if_nameindex()],
         "capabilities": Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0]}
for name, path in PLACES.items():
    try:
        Path(path, "planted").write_text("x")
        facts[name] = "written"
    except OSError as error:
        facts[name] = error.strerror
raise RuntimeError(json.dumps(facts))
"""


def facts(bench: Bench, places: dict[str, str]) -> dict[str, Any]:
    source = f"PLACES = {places!r}\n{FACTS}"
    with bench.context(sandbox="strict").worker("facts", salt="facts") as worker:
        with pytest.raises(WorkerFault) as caught:
            worker.ask("build", timeout_s=60, source=source, file_name="facts.py")
        text = caught.value.text
    return dict(json.loads(text[text.index("RuntimeError: ") + len("RuntimeError: ") :]))


@strict
def test_a_worker_in_namespaces_sees_itself_and_writes_only_what_is_its_own(bench: Bench) -> None:
    repository, cache = ROOT, bench.folder / "cache"
    places = {
        "sources": str(repository / "harness"),
        "results": str(repository / "results"),
        "home": str(Path.home()),
        "others' builds": str(cache / "builds"),
        "its builds": str(cache / "builds" / "facts"),
        "its folder": ".",
    }
    found = facts(bench, places)
    assert len(found["pids"]) == 2, "bubblewrap's first process and the worker"
    assert found["interfaces"] in (["lo"], [])
    assert found["shared"] == []
    assert int(found["capabilities"], 16) == 0
    assert [name for name in found["temporary"] if name.startswith("harness-")] in (
        [],
        [name for name in found["temporary"] if name.startswith("harness-")][:1],
    )
    assert found["its builds"] == found["its folder"] == "written"
    for name in ("sources", "results", "home"):
        assert found[name] == "Read-only file system", name
    # Where the cache lies in a hidden folder, what is planted beside it stays in there.
    assert not (cache / "builds" / "planted").exists()


@strict
def test_a_right_solution_passes_in_namespaces_and_the_row_says_so(bench: Bench) -> None:
    row = bench.judge(HONEST, sandbox="strict")
    assert row.verdict.status.value == "pass", row.verdict
    assert row.isolation == isolation.BUBBLEWRAP


@strict
def test_a_death_by_a_signal_is_told_through_bubblewrap(bench: Bench) -> None:
    row = bench.judge("import os\nos.abort()\n" + HONEST, sandbox="strict")
    assert (row.verdict.status.value, "SIGABRT" in row.verdict.message) == ("crash", True)


def test_a_changed_source_is_named(tmp_path: Path) -> None:
    (tmp_path / "harness").mkdir()
    for name in ("kept", "changed", "gone"):
        (tmp_path / "harness" / f"{name}.py").write_text("x = 1")
    before = Fingerprint.of(tmp_path)
    assert before.changed() == []
    (tmp_path / "harness" / "changed.py").write_text("x = 2")
    (tmp_path / "harness" / "gone.py").unlink()
    (tmp_path / "harness" / "new.py").write_text("")
    assert before.changed() == ["harness/changed.py", "harness/gone.py", "harness/new.py"]


def test_a_source_of_the_harness_that_changes_meanwhile_is_no_credit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fingerprint, "changed", lambda self: ["harness/judge/audit.py"])
    row = bench.judge(HONEST, sandbox="default")
    assert row.verdict.status.value == "harness_error"
    assert "harness/judge/audit.py was changed" in row.verdict.message
