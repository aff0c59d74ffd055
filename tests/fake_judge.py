"""Stands in for `harness.fleet.judging`, without torch: does what the comment at the end of a
solution's text says, and keeps a journal of what it began.

    python fake_judge.py HOUSE DESCRIPTOR     HOUSE: a folder with `house.json` (see `Fakes`)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from harness.fleet.wire import Wire, WireClosed, WireTimeout  # noqa: E402


def main(house: Path, descriptor: int) -> None:
    told = json.loads((house / "house.json").read_text())
    wire = Wire(socket.socket(fileno=descriptor))
    terms = wire.receive()
    with (house / "places").open("a") as places:
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        places.write(f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {cores} {terms['neighbours']}\n")
    if "refusal" in told:
        wire.send({"refused": told["refusal"]})
    wire.send({"hello": {"environment": told["environment"]}})
    while True:
        unit = json.loads(wire.receive()["unit"])
        known = {row["solution"]: row for row in unit["known"]}
        for solution in unit["solutions"]:
            row = known.get(solution["name"])
            if row is None:
                row = {**told["row"], "problem": unit["problem"]["name"]}
                row |= {"solution": solution["name"], "run_id": terms["run_id"]}
                row |= {f"{kind}_digest": one["digest"] for kind, one in (
                    ("problem", unit["problem"]), ("solution", solution))}  # fmt: skip
                evaluate(wire, house, row, solution["source"].rpartition("# ")[2].split())
            wire.send({"row": row, "known": solution["name"] in known})
        wire.send({"done": True})


def evaluate(wire: Wire, house: Path, row: dict[str, Any], deed: list[str]) -> None:
    wire.send({"begin": [row["problem"], row["solution"], "full"]})
    with (house / "journal").open("a") as journal:
        journal.write(f"{row['problem']}/{row['solution']} {os.getpid()} {os.getppid()}\n")
    first = house / f"first {row['solution']}"
    match deed:
        case ["dies"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case ["dies", "once"] if not first.exists():
            first.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        case ["hangs"]:
            wire.receive()  # nothing more is said to it
        case ["waits"]:
            while not first.exists():
                with contextlib.suppress(WireTimeout):  # and ends when nobody listens
                    wire.receive(0.02)
        case ["meets"]:  # until somebody else's judge has begun something
            journal = house / "journal"
            while len({line.split()[2] for line in journal.read_text().splitlines()}) < 2:
                with contextlib.suppress(WireTimeout):
                    wire.receive(0.02)
        case ["naps"]:
            time.sleep(0.05)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]))
    except WireClosed:
        os._exit(0)
