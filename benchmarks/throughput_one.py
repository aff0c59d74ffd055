"""One run of `throughput`, as the command line does it: the process that workers are forked of is
started first, and torch is imported meanwhile."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from harness import config
from harness.judge.process import headstart

PATHS = ("problem_dir", "solution_dir", "cache_dir", "output")


def main() -> None:
    """Do what the terms beside the file named say, and write there what is found."""
    file = Path(sys.argv[1])
    terms = json.loads(file.with_suffix(".terms").read_text())
    settings = config.load(None, terms["settings"])
    headstart.take(settings)
    from benchmarks import throughput
    from harness import run

    given: dict[str, Any] = {k: Path(v) if k in PATHS else v for k, v in terms["request"].items()}
    request = run.Request(settings=settings, fresh=True, **given)
    file.write_text(json.dumps(throughput.one(request, terms["budget_s"])))


if __name__ == "__main__":
    main()
