"""`--ray`: real Ray nodes on this machine. Workers are killed, a node goes, a task hangs."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from fleets import Fakes, Told, verdicts
from support import HONEST, QUICK, TINY, gone

from harness import results, run
from harness.config import Settings
from harness.errors import MachineError, RequestError
from harness.fleet import cluster, fleet
from harness.records import Row

pytest.importorskip("ray", reason="ray is not installed (pip install .[ray])")

Cluster = Any  # ray.cluster_utils.Cluster


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head without CPUs and two nodes of one CPU each, all on this machine."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("node-cache")))
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for _ in range(2):
            started.add_node(num_cpus=1)
        yield started
        started.shutdown()


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    return Fakes(folder=tmp_path)


def evaluate(
    nodes: Cluster,
    request: run.Request,
    command: Sequence[str] | None = None,
    told: Told | None = None,
    silence_s: float = 60.0,
) -> list[Row]:
    """The rows of judges on the cluster; with `command`, of fake ones."""
    slot = functools.partial(cluster.RaySlot, command=command)
    with (
        mock.patch.object(cluster, "RaySlot", slot),
        mock.patch.object(fleet, "silence_s", return_value=silence_s),
    ):
        return cluster.execute(request, nodes.address, told or Told())


def meanwhile(act: Callable[[], None], release: Path) -> threading.Thread:
    """`act` beside the run; whatever becomes of it, who waits goes on."""

    def acted() -> None:
        try:
            act()
        finally:
            release.touch()

    thread = threading.Thread(target=acted, daemon=True)
    thread.start()
    return thread


def begun(fakes: Fakes, name: str, times: int = 1, within_s: float = 60.0) -> tuple[int, int]:
    """The judge and its relay, by process, as soon as a solution was begun so often."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = [entry for entry in fakes.journal() if entry[0] == name]
        if len(found) >= times:
            return int(found[-1][1]), int(found[-1][2])
        time.sleep(0.05)
    raise AssertionError(f"{name} was never begun")


def first(fakes: Fakes) -> Path:
    """What the solution `1` waits for."""
    return fakes.folder / "Fake 1" / "first 1"


DEEDS = {f"{p}/{n}": "naps" for p in ("a", "b") for n in range(4)}


def test_verdicts_are_those_of_one_device(nodes: Cluster, tmp_path: Path) -> None:
    solutions = {"right": HONEST, "wrong": HONEST.replace("mean(dim=1)", "sum(dim=1)")}
    for problem in ("one", "two"):
        for name, text in solutions.items():
            file = tmp_path / "solutions" / problem / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (tmp_path / "problems").mkdir(exist_ok=True)
        (tmp_path / "problems" / f"{problem}.py").write_text(TINY)
    request = run.Request(
        settings=Settings(**(QUICK | {"threads": 1})),
        problem_dir=tmp_path / "problems",
        solution_dir=tmp_path / "solutions",
        results_dir=tmp_path / "results",
    )
    rows = evaluate(nodes, request)
    wanted = {f"{p}/{n}": "pass" if n == "right" else "wrong_output" for p in ("one", "two")
              for n in solutions}  # fmt: skip
    assert verdicts(rows) == wanted
    (file,) = (tmp_path / "results").glob("*.csv")
    assert len(results.read(file)) == 4
    assert len(list((tmp_path / "results" / "raw").iterdir())) == 2


def test_both_nodes_work_and_rows_come_as_they_are_known(nodes: Cluster, fakes: Fakes) -> None:
    told = Told()
    rows = evaluate(nodes, fakes.request(DEEDS | {"a/0": "meets"}), fakes.command(), told)
    assert list(verdicts(rows)) == sorted(DEEDS)
    assert set(verdicts(rows).values()) == {"pass"}
    assert set(fakes.begun().values()) == {1}
    assert len({relay for _, _, relay in fakes.journal()}) == 2
    assert told.counts == [(n, 8) for n in range(1, 9)]
    assert len(results.read(fakes.folder / "results" / "Fake_1.csv")) == 8
    assert all(gone(int(pid)) for entry in fakes.journal() for pid in entry[1:])


def test_a_worker_killed_in_the_middle_costs_nobody_a_row(nodes: Cluster, fakes: Fakes) -> None:
    told = Told()

    def kill() -> None:
        judge, relay = begun(fakes, "a/1")
        os.kill(relay, signal.SIGKILL)
        assert gone(judge)
        begun(fakes, "a/1", 2)

    killing = meanwhile(kill, first(fakes))
    deeds = {name: deed for name, deed in DEEDS.items() if name != "b/1"} | {"a/1": "waits"}
    rows = evaluate(nodes, fakes.request(deeds), fakes.command(), told)
    killing.join(10)
    assert set(verdicts(rows).values()) == {"pass"}
    assert len(rows) == len(deeds)
    assert fakes.begun() == {name: 2 if name == "a/1" else 1 for name in deeds}
    assert any("lost" in warning for warning in told.warnings)


def test_a_judge_that_hangs_is_ended_and_evaluated_elsewhere(nodes: Cluster, fakes: Fakes) -> None:
    deeds = {"a/1": "hangs", "a/2": "naps", "b/3": "naps"}
    rows = evaluate(nodes, fakes.request(deeds), fakes.command(), silence_s=1.0)
    assert verdicts(rows) == {n: "harness_error" if n == "a/1" else "pass" for n in deeds}
    assert "said nothing for 1 s" in rows[0].verdict.message
    assert all(gone(int(judge)) for _, judge, _ in fakes.journal())


def test_a_task_that_hangs_is_ended_and_evaluated_elsewhere(nodes: Cluster, fakes: Fakes) -> None:
    """Here the process is stopped that would see to its judge."""
    deeds = {"a/1": "waits", "b/2": "naps"}

    def stop() -> None:
        _, relay = begun(fakes, "a/1")
        os.kill(relay, signal.SIGSTOP)
        begun(fakes, "a/1", 2)

    stopping = meanwhile(stop, first(fakes))
    with mock.patch.object(cluster, "SLACK_S", 0.5):
        rows = evaluate(nodes, fakes.request(deeds), fakes.command(), silence_s=3.0)
    stopping.join(10)
    assert verdicts(rows) == dict.fromkeys(deeds, "pass")
    assert fakes.begun() == {"a/1": 2, "b/2": 1}


class Interrupted(Told):
    """Ctrl-C at the first row."""

    def row(self, row: Row) -> None:
        super().row(row)
        raise KeyboardInterrupt


def test_ctrl_c_ends_judges_on_all_nodes(nodes: Cluster, fakes: Fakes) -> None:
    with pytest.raises(KeyboardInterrupt):
        evaluate(nodes, fakes.request(DEEDS | {"b/3": "waits"}), fakes.command(), Interrupted())
    assert fakes.journal()
    assert all(gone(int(pid)) for entry in fakes.journal() for pid in entry[1:])


def test_each_gpu_of_a_node_gets_a_judge_that_sees_it_alone_on_cores_of_its_own(
    nodes: Cluster, fakes: Fakes
) -> None:
    """GPUs that Ray believes in: nothing touches them."""
    node = nodes.add_node(num_cpus=2, num_gpus=2)
    fakes.settings["device"] = "cuda"
    deeds = DEEDS | {"a/0": "meets"}
    assert set(verdicts(evaluate(nodes, fakes.request(deeds), fakes.command())).values()) == {
        "pass"
    }
    places = (fakes.folder / "Fake 1" / "places").read_text().splitlines()
    count = len(os.sched_getaffinity(0))
    gpus, cores, neighbours = zip(*(place.split() for place in sorted(places)), strict=True)
    assert gpus == ("0", "1")
    assert neighbours == ("2", "2")
    assert sum(len(own.split(",")) for own in cores) == max(2, count)
    nodes.remove_node(node)


def test_a_node_that_goes_costs_nobody_a_row(nodes: Cluster, fakes: Fakes) -> None:
    """Last of all: the cluster has one node less afterwards."""
    told = Told()

    def remove() -> None:
        judge, relay = begun(fakes, "a/1")
        raylet = psutil.Process(relay).ppid()
        (node,) = [n for n in nodes.worker_nodes if raylet_of(n) == raylet]
        nodes.remove_node(node, allow_graceful=False)
        assert gone(judge)
        begun(fakes, "a/1", 2)

    removing = meanwhile(remove, first(fakes))
    deeds = {name: deed for name, deed in DEEDS.items() if name != "b/1"} | {"a/1": "waits"}
    rows = evaluate(nodes, fakes.request(deeds), fakes.command(), told)
    removing.join(10)
    assert verdicts(rows) == dict.fromkeys(sorted(deeds), "pass")
    assert fakes.begun() == {name: 2 if name == "a/1" else 1 for name in deeds}


def raylet_of(node: Any) -> int:
    (info,) = node.all_processes["raylet"]
    return int(info.process.pid)


# --- without a cluster --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "gpus", "wanted"),
    [("auto", 8, "cuda"), ("auto", 0, "cpu"), ("cpu", 8, "cpu"), ("cuda", 1, "cuda")],
)
def test_which_devices_of_a_cluster_are_meant(setting: str, gpus: float, wanted: str) -> None:
    assert cluster.device_type(setting, {"CPU": 4, "GPU": gpus}) == wanted


def test_what_a_cluster_cannot_give_is_refused() -> None:
    with pytest.raises(RequestError, match="--device cuda:1"):
        cluster.device_type("cuda:1", {"GPU": 8})
    with pytest.raises(MachineError, match="no GPUs"):
        cluster.device_type("cuda", {"CPU": 8})


def test_without_ray_it_says_how_to_get_it(fakes: Fakes) -> None:
    with (
        mock.patch.object(cluster, "_ray", side_effect=ImportError),
        pytest.raises(MachineError, match=r"pip install \.\[ray\]"),
    ):
        cluster.execute(fakes.request(DEEDS), None, Told())


@pytest.mark.parametrize(
    ("given", "variable", "joined"),
    [(None, None, "local"), (None, "head:6379", "head:6379"), ("auto", "head:6379", "auto")],
)
def test_a_cluster_is_only_joined_where_one_is_named(
    fakes: Fakes,
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    variable: str | None,
    joined: str,
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if variable is not None:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    ray = mock.Mock()
    ray.init.side_effect = ConnectionError("not there")
    with (
        mock.patch.object(cluster, "_ray", return_value=ray),
        pytest.raises(MachineError, match="no Ray cluster could be joined: not there"),
    ):
        cluster.execute(fakes.request(DEEDS), given, Told())
    assert ray.init.call_args.kwargs["address"] == joined


def test_an_address_of_another_kind_is_refused(fakes: Fakes) -> None:
    with pytest.raises(RequestError, match="not ray://"):
        cluster.execute(fakes.request(DEEDS), "ray://there:10001", Told())
