"""The command line: exit statuses, one line for every error, and who may print where."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
import torch
from examples import make
from support import HONEST, QUICK, ROOT, SCALE_SOURCE, TINY, await_file, gone

from harness import cli, config, results, run
from harness.commands import tools
from harness.commands.terminal import Screen
from harness.fleet import cluster, devices, host
from harness.fleet.devices import Place
from harness.judge.process import toolchain
from harness.judge.timing import baseline
from harness.judge.timing.baseline import Baseline
from harness.records import COLUMNS

BROKEN = "class ModelNew(:\n"  # settled by its text alone: no worker is needed
WRONG = HONEST.replace("mean(dim=1)", "sum(dim=1)")
ANSWER = f"""Here is a first try.

```python
class ModelNew: pass
```

That was wrong. This is right:

```python
{HONEST}
```

It is fast.
"""


@dataclass(kw_only=True)
class House:
    """A folder with the problem `tiny`, its solutions, a preset, and room for results."""

    root: Path

    @property
    def output(self) -> Path:
        return self.root / "out.csv"

    def add(self, name: str, text: str) -> Path:
        path = self.root / "solutions" / "tiny" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def arguments(self, *more: str, problem: str | None = "tiny") -> list[str]:
        return [
            *(("--problem", problem) if problem else ()),
            *("--problem-dir", str(self.root / "problems")),
            *("--solution-dir", str(self.root / "solutions")),
            *("--config", str(self.root / "quick.yaml")),
            *("--output", str(self.output)),
            *more,
        ]


@pytest.fixture
def house(tmp_path: Path) -> House:
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "tiny.py").write_text(TINY)
    (tmp_path / "solutions" / "tiny").mkdir(parents=True)
    lists = {k: list(v) if isinstance(v, tuple) else v for k, v in QUICK.items()}
    (tmp_path / "quick.yaml").write_text(json.dumps(lists))  # JSON is YAML
    return House(root=tmp_path)


@dataclass(frozen=True, kw_only=True)
class Done:
    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that an error is. Fails for more."""
        (line,) = (x for x in self.err.splitlines() if "error: " in x)
        assert self.err.rstrip().endswith(line), self.err
        return line.partition("error: ")[2]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Done]]:
    """Runs a command line in this process, without measuring the reference; logs stay here."""
    places = {"results_dir": tmp_path / "results", "cache_dir": tmp_path / "cache"}
    monkeypatch.setattr(run, "Request", functools.partial(run.Request, **places))
    capsys.readouterr()

    def call(*arguments: str) -> Done:
        try:
            status = cli.main(list(arguments))
        except SystemExit as error:  # argparse
            status = int(str(error.code))
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Done(status=status, out=out, err=err)

    with mock.patch.object(baseline, "measure", return_value=Baseline()):
        yield call


Command = Callable[..., Done]


# --- the request was wrong: 2 -------------------------------------------------------------------


def test_quick_beside_another_preset_is_a_wrong_request(house: House, command: Command) -> None:
    done = command(*house.arguments("--quick"))
    assert done.status == 2
    assert "not both" in done.error


def test_quick_is_a_preset_that_flags_win_over(house: House, command: Command) -> None:
    house.add("honest.py", HONEST)
    arguments = house.arguments("--quick", "--json", "--device", "cpu", "--trials", "3")
    arguments[arguments.index("--config") : arguments.index("--config") + 2] = []
    done = command(*arguments)
    (row,) = done.rows
    assert (done.status, row["status"]) == (0, "forward_only")
    assert "quick" in row["flags"].split()
    assert row["settings_digest"] == config.load("quick", {"trials": 3}).digest


def test_every_command_is_listed_with_what_it_is_for() -> None:
    assert sorted(cli.OTHERS) == sorted(tools.COMMANDS)


def test_no_arguments_say_what_to_give(command: Command) -> None:
    done = command()
    assert done.status == 2
    assert "--problem" in done.error
    assert "--all" in done.error


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--problem", "mse"), ("--problem", "--all")),
        (("--devices", "all", "--device", "cpu"), ("--devices", "--device")),
        (("--devices", "all", "--ray"), ("--devices", "--ray")),
        (("--devices", "all", "--watch"), ("--devices", "--watch")),
        (("--ray", "head:6379", "--watch"), ("--ray", "--watch")),
    ],
)
def test_of_ways_to_evaluate_only_one_can_be(
    command: Command, flags: tuple[str, ...], names: tuple[str, str]
) -> None:
    done = command("--all", *flags)
    assert done.status == 2
    assert f"{names[0]} and {names[1]} do not go together" in done.error


def test_an_unknown_device_among_several_is_refused(command: Command) -> None:
    gpus = {"0": Place(name="cuda:0", visible="GPU-1")}
    with mock.patch.object(devices, "gpus", return_value=gpus):
        done = command("--all", "--devices", "0,7")
    assert done.status == 2
    assert "no device '7' here" in done.error


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (("--devices", "0,1"), ("host", "0,1")),
        (("--ray",), ("cluster", None)),
        (("--ray", "head:6379"), ("cluster", "head:6379")),
    ],
)
def test_where_several_devices_are_meant(
    house: House, command: Command, flags: tuple[str, ...], wanted: tuple[str, str | None]
) -> None:
    asked: list[tuple[str, str | None]] = []
    with contextlib.ExitStack() as stack:
        for module in (host, cluster):
            name = module.__name__.rpartition(".")[2]
            execute = functools.partial(_asked, asked, name)
            stack.enter_context(mock.patch.object(module, "execute", execute))
        assert command(*house.arguments(*flags)).status == 0
    assert asked == [wanted]


def _asked(
    asked: list[Any], name: str, request: run.Request, where: Any, observer: Any
) -> list[Any]:
    asked.append((name, where))
    return []


def test_ray_is_not_imported_unless_it_is_asked_for() -> None:
    code = "import sys, harness.cli; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_an_unknown_problem_is_answered_with_the_nearest_names(command: Command) -> None:
    done = command("--problem", "kldiv")
    assert done.status == 2
    assert "no problem 'kldiv'" in done.error
    assert "nearest: kl_div" in done.error
    assert done.out == ""


def test_an_unknown_solution_is_answered_with_the_nearest_names(command: Command) -> None:
    done = command("--problem", "mse", "--solution", "cp")
    assert done.status == 2
    assert "no solution 'cp'" in done.error
    assert "cpp" in done.error


def test_an_unknown_key_of_a_preset_is_named_with_the_valid_ones(
    command: Command, house: House
) -> None:
    (house.root / "quick.yaml").write_text("trails: 3\n")
    done = command(*house.arguments())
    assert done.status == 2
    assert "'trails' is unknown (nearest: trials" in done.error
    assert "valid: " in done.error


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--dtype", "float31"), "float31"),
        (("--trials", "0"), "trials is 0"),
        (("--trials", "many"), "invalid int value"),
        (("--device", "gpu"), "device is 'gpu'"),
        (("--modes", "forward,sideways"), "sideways"),
        (("--cuda-arch", "sm_90"), "cuda_arch is 'sm_90'"),
        (("--size", "huge"), "no size 'huge'; it has full"),
        (("--config", "nowhere.yaml"), "nowhere.yaml"),
        (("--no-such-flag",), "unrecognized arguments: --no-such-flag"),
        (("--size", "rows=8"), "no constant 'rows': "),
        (("--devices", "cpu,gpu"), "names 'gpu'"),
        (("--devices", "cpu,0"), "cpu beside GPUs"),
        (("--problem", "mse"), "--problem is given twice"),
        (("--solution", "x", "--solution", "y"), "--solution is given twice"),
        (("--problem-dir", "/nowhere"), "/nowhere"),
        (("--solution-dir", "/nowhere"), "/nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_argument_is_one_line_that_names_it(
    command: Command, house: House, arguments: tuple[str, ...], wanted: str
) -> None:
    house.add("x.py", BROKEN)
    done = command(*house.arguments(*arguments))
    assert done.status == 2
    assert wanted in done.error
    assert not house.output.exists()


@pytest.mark.parametrize(
    ("name", "wanted"), [("evaluat", "nearest: evaluate"), ("mse", "the commands are: ")]
)
def test_an_unknown_command_is_answered_with_those_there_are(
    command: Command, name: str, wanted: str
) -> None:
    done = command(name, "--problem", "mse")
    assert done.status == 2
    assert done.error.startswith(f"no command '{name}': {wanted}")


@pytest.mark.parametrize("name", cli.OTHERS)
def test_every_command_answers_a_wrong_argument_with_one_line(command: Command, name: str) -> None:
    done = command(name, "--no-such-flag")
    assert done.status == 2
    assert f"run_eval.py {name} --help tells what there is" in done.error
    assert len(done.err.splitlines()) == 1


def test_the_main_command_may_be_named(command: Command) -> None:
    done = command("evaluate", "--problem", "kldiv")
    assert done.status == 2
    assert "no problem 'kldiv'" in done.error


def test_help_is_no_error(command: Command) -> None:
    done = command("--help")
    assert done.status == 0
    assert "--problem" in done.out


# --- where output goes ----------------------------------------------------------------------------


SHOWN = (
    ("compare", "FILE"),
    ("compare", "FILE", "--markdown"),
    ("compare", "FILE", "--json"),
    ("report", "FILE", "--format", "markdown"),
    ("explain", "--problem", "kl_div", "--solution", "±→", "FILE"),
    ("metrics", "FILE"),
    ("compare", "none.csv"),
)


@pytest.fixture
def shown(tmp_path: Path, request: pytest.FixtureRequest) -> list[str]:
    """A command that shows something, of a file that says more than ASCII can."""
    results.append(tmp_path / "x.csv", make("±→", message="π \ud800 \u202e"))
    return [str(tmp_path / "x.csv") if a == "FILE" else a for a in request.param]


@pytest.mark.parametrize("shown", SHOWN, ids=" ".join, indirect=True)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_every_encoding_can_show_everything(
    shown: list[str], monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in "oe"]
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        monkeypatch.setattr(sys, name, stream)
    assert cli.main(shown) == (2 if "none.csv" in shown else 0)
    assert any(cast(io.BytesIO, stream.buffer).getvalue() for stream in streams)


@pytest.mark.parametrize("shown", SHOWN, ids=" ".join, indirect=True)
def test_a_reader_that_is_gone_ends_a_command_without_a_word(
    shown: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stderr" if "none.csv" in shown else "stdout", stream)
        assert cli.main(shown) == 141
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shown", SHOWN[:-1], ids=" ".join, indirect=True)
def test_output_that_is_full_is_status_3_in_one_line(
    shown: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert cli.main(shown) == 3
    error = capsys.readouterr().err
    assert error == "error: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("arguments", [a for a in SHOWN if "FILE" in a], ids=" ".join)
def test_a_link_that_leads_to_itself_is_one_line(
    command: Command, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    done = command(*(str(tmp_path / "loop.csv") if a == "FILE" else a for a in arguments))
    assert done.status == 2
    assert "Too many levels of symbolic links" in done.error
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
@pytest.mark.parametrize("shown", SHOWN[:1], indirect=True)
def test_a_closed_stream_is_written_to_nowhere(
    shown: list[str], monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    monkeypatch.setattr(sys, closed, None)
    assert cli.main(shown) == 0


# --- this machine cannot: 3 ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "status", "why"),
    [("file/x.csv", 3, "choose another with --output"), (".", 2, "is a folder")],
)
def test_an_output_that_cannot_be_written_is_refused(
    command: Command, house: House, place: str, status: int, why: str
) -> None:
    house.add("x.py", BROKEN)
    (house.root / "file").write_text("")
    arguments = house.arguments()
    arguments[arguments.index("--output") + 1] = str(house.root / place)
    done = command(*arguments)
    assert done.status == status
    assert why in done.error


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither compiler nor ninja is found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    toolchain.find.cache_clear()
    yield
    toolchain.find.cache_clear()


@pytest.mark.usefixtures("bare_path")
def test_a_missing_compiler_is_status_3_with_what_to_install(
    command: Command, house: House
) -> None:
    house.add("x.py", f"from torch.utils.cpp_extension import load_inline\n{HONEST}")
    done = command(*house.arguments())
    assert done.status == 3
    assert re.search(r"no C\+\+ compiler found; install one", done.error)
    assert not house.output.exists()
    assert "start" not in done.err


@pytest.mark.usefixtures("bare_path")
def test_a_missing_ninja_is_status_3_with_what_to_install(
    command: Command, house: House, tmp_path: Path
) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    house.add("x.py", f"from torch.utils.cpp_extension import load_inline\n{HONEST}")
    done = command(*house.arguments())
    assert done.status == 3
    assert "ninja not found; install it with: pip install ninja" in done.error


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_there_is_status_3(command: Command, house: House) -> None:
    house.add("x.py", BROKEN)
    done = command(*house.arguments("--device", "cuda"))
    assert done.status == 3
    assert "CUDA" in done.error


# --- done: 0 or 1 -------------------------------------------------------------------------------


def test_all_passed_or_skipped_is_status_0_and_a_table(command: Command, house: House) -> None:
    house.add("cuda.py", "DEVICES = ('cuda',)\n" + HONEST)
    house.add("right.py", HONEST)
    done = command(*house.arguments())
    assert done.status == 0
    assert re.search(r"tiny, size full, float32, on .*", done.out)
    assert re.search(r"right +pass", done.out)
    assert re.search(r"cuda +skipped", done.out)
    assert "needs a CUDA device" in done.out
    assert "tiny / right (full): check forward, size full\n" in done.err
    assert "tiny / right: pass in" in done.err


def test_one_that_does_not_pass_is_status_1_and_told_why_and_where(
    command: Command, house: House
) -> None:
    house.add("broken.py", BROKEN)
    house.add("cuda.py", "DEVICES = ('cuda',)\n" + HONEST)
    done = command(*house.arguments())
    assert done.status == 1
    assert re.search(r"broken +contract_error", done.out)
    assert "broken: broken.py:1: invalid syntax\n" in done.out  # no log: nothing was run


def test_rows_as_json_parse_and_nothing_else_is_on_standard_output(
    command: Command, house: House
) -> None:
    house.add("a.py", BROKEN)
    house.add("b.py", "print('from the solution')\n" + WRONG)
    done = command(*house.arguments("--json"))
    assert done.status == 1
    assert [row["solution"] for row in done.rows] == ["a", "b"]
    assert [row["status"] for row in done.rows] == ["contract_error", "wrong_output"]
    assert all(tuple(row) == COLUMNS for row in done.rows)
    assert done.rows == results.plain(results.read(house.output))
    assert "tiny / b (full): build" in done.err


def test_a_reference_at_fault_is_a_row_with_file_and_line(command: Command, house: House) -> None:
    broken = TINY.replace("torch.randn(ROWS", "torch.randn(-ROWS")
    (house.root / "problems" / "tiny.py").write_text(broken)
    house.add("a.py", HONEST)
    house.add("b.py", HONEST)
    done = command(*house.arguments("--json"))
    assert done.status == 1
    assert [row["status"] for row in done.rows] == ["reference_error"] * 2
    assert all("tiny.py:14: get_inputs failed" in row["message"] for row in done.rows)


def test_every_problem_is_evaluated_with_all(command: Command, house: House) -> None:
    (house.root / "problems" / "other.py").write_text(TINY)
    (house.root / "solutions" / "other").mkdir()
    (house.root / "solutions" / "other" / "y.py").write_text(BROKEN)
    house.add("x.py", BROKEN)
    done = command(*house.arguments("--all", "--json", problem=None))
    assert [row["problem"] for row in done.rows] == ["other", "tiny"]


# --- what may be submitted ----------------------------------------------------------------------


def test_a_solution_is_taken_from_anywhere(
    command: Command, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.py").write_text(WRONG)
    monkeypatch.chdir(tmp_path / "elsewhere")
    for path in ("mine.py", str(tmp_path / "elsewhere" / "mine.py")):
        done = command(*house.arguments("--json", "--solution", path))
        assert [(r["solution"], r["status"]) for r in done.rows] == [("mine", "wrong_output")]


def test_a_models_answer_is_a_solution_and_the_row_says_which_block(
    command: Command, house: House, tmp_path: Path
) -> None:
    answer = tmp_path / "answer.md"
    answer.write_text(ANSWER)
    done = command(*house.arguments("--json", "--solution", str(answer)))
    assert done.status == 0
    (row,) = done.rows
    assert row["status"] == "pass"
    assert "block 2 of 2" in row["message"]


def test_a_problem_is_taken_from_anywhere(command: Command, house: House, tmp_path: Path) -> None:
    problem = tmp_path / "mine.py"
    problem.write_text(TINY)
    solution = house.add("x.py", BROKEN)
    arguments = house.arguments("--json", "--solution", str(solution), problem=str(problem))
    assert [row["problem"] for row in command(*arguments).rows] == ["mine"]


# --- resuming -----------------------------------------------------------------------------------


def test_a_second_run_takes_rows_from_the_results_and_fresh_does_not(
    command: Command, house: House
) -> None:
    house.add("a.py", BROKEN)
    first = command(*house.arguments("--json"))
    again = command(*house.arguments("--json"))
    assert again.rows == first.rows
    assert "taken from out.csv" in again.err
    fresh = command(*house.arguments("--json", "--fresh"))
    assert fresh.rows[0]["run_id"] != first.rows[0]["run_id"]
    assert "taken from" not in fresh.err
    assert len(results.read(house.output)) == 2


def test_a_half_written_last_line_is_set_aside_with_a_warning(
    command: Command, house: House
) -> None:
    house.add("a.py", BROKEN)
    house.add("b.py", BROKEN + "#")
    first = command(*house.arguments("--json"))
    house.output.write_bytes(house.output.read_bytes()[:-30])
    again = command(*house.arguments("--json"))
    assert again.status == 1
    assert again.rows[0] == first.rows[0]
    assert again.rows[1]["run_id"] != first.rows[1]["run_id"]
    assert re.search(r"warning: .*out\.csv.* set aside", again.err)
    assert len(results.read(house.output)) == 2


# --- building alone -----------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_building_alone_says_built_and_runs_nothing(command: Command, house: House) -> None:
    house.add(
        "x.py",
        "from torch.utils.cpp_extension import load_inline\n"
        f"load_inline(name='x', cpp_sources=r'''{SCALE_SOURCE}''', no_implicit_headers=True)\n"
        + WRONG,
    )
    done = command(*house.arguments("--json", "--build-only"))
    assert done.status == 0
    assert [row["status"] for row in done.rows] == ["built"]
    assert not house.output.exists()


@pytest.mark.usefixtures("needs_nvcc")
def test_a_shipped_cuda_solution_builds_without_a_gpu(command: Command, tmp_path: Path) -> None:
    arguments = ("--problem", "mse", "--solution", "cuda", "--build-only", "--json")
    done = command(*arguments, "--output", str(tmp_path / "x.csv"))
    assert [(row["status"], row["message"]) for row in done.rows] == [
        ("built", "1 extension built")
    ]
    assert done.status == 0


TOO_LONG = "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        "--problem mse --output X.csv",
        "--problem mse --problem-dir X",
        "--problem mse --solution-dir X",
        "--problem mse --config X",
        "--problem X",
        "--problem mse --solution X.py",
        "compare X.csv",
        "recompute X.csv",
        "metrics X.csv",
        "explain --problem mse --solution cpp X.csv",
        "report here.csv --output X.html",
        "export here.csv --output X",
        "import here.jsonl --to X",
        "import X --to here",
        "lint --all --config X",
        "new problem p --problem-dir X",
        "new solution mse s --solution-dir X",
    ],
)
def test_a_path_that_the_system_refuses_is_a_wrong_request(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Half of them ended in a traceback: `Path.is_file` raises for a name that is too long."""
    monkeypatch.chdir(tmp_path)
    done = command(*(word.replace("X", TOO_LONG) for word in words.split()))
    assert done.status == 2
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--solution", "--config"])
def test_an_empty_name_is_not_all_there_is(command: Command, option: str) -> None:
    """`--solution "$MINE"`, where nobody has set MINE, evaluated every solution."""
    done = command("--problem", "mse", option, "")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert f"{option} is empty: name one" in done.error


# --- as a process -------------------------------------------------------------------------------

#: The command line with logs and cache in a folder, and without measuring the reference.
DRIVER = """
import functools, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs behind
from pathlib import Path
from unittest import mock
root, folder = sys.argv[1:3]
sys.path.insert(0, root)
from harness import cli, run
from harness.judge.timing import baseline
places = {"results_dir": Path(folder) / "results", "cache_dir": Path(folder) / "cache"}
run.Request = functools.partial(run.Request, **places)
with mock.patch.object(baseline, "measure", return_value=baseline.Baseline()):
    sys.exit(cli.main(sys.argv[3:]))
"""

HANGING = """
import os, subprocess, time
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
with open({note!r} + ".new", "w") as file:
    file.write(f"{{os.getpid()}} {{os.getppid()}} {{child.pid}}")
os.rename({note!r} + ".new", {note!r})
while True: time.sleep(1)
class ModelNew: pass
"""

#: A solution in namespaces of its own could neither write its note nor know its own pid.
OPEN = ("--sandbox", "default")


def test_an_interrupt_ends_the_workers_keeps_the_rows_and_is_status_130(
    house: House, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    house.add("a.py", BROKEN)
    house.add("b.py", HANGING.format(note=str(note)))
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(ROOT), str(tmp_path), *house.arguments(*OPEN, "--json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        pids = [int(text) for text in await_file(note).split()]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert all(gone(pid) for pid in pids)
    assert "interrupted; the rows so far are kept" in err
    assert "Traceback" not in err
    (row,) = map(json.loads, out.splitlines())
    assert row["solution"] == "a"
    assert results.plain(results.read(house.output)) == [row]


def test_an_interrupt_before_anything_runs_is_status_130_without_a_word(tmp_path: Path) -> None:
    """In the tenth of a second that imports take; here a library's import is what interrupts."""
    code = "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    (tmp_path / "rich.py").write_text(code + "os.kill(os.getpid(), signal.SIGINT)")
    done = subprocess.run(
        [sys.executable, str(ROOT / "run_eval.py"), "--problem", "mse"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_killed_run_loses_no_row_and_is_resumed(
    command: Command, house: House, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    house.add("a.py", BROKEN)
    hanging = house.add("b.py", HANGING.format(note=str(note)))
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(ROOT), str(tmp_path), *house.arguments(*OPEN)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        pids = [int(text) for text in await_file(note).split()]
    finally:
        process.kill()
        process.wait()
    assert all(gone(pid) for pid in pids)
    (first,) = results.plain(results.read(house.output))
    hanging.write_text(WRONG)
    done = command(*house.arguments(*OPEN, "--json"))
    assert done.rows[0] == first
    assert done.rows[1]["status"] == "wrong_output"


def test_the_script_runs_from_any_folder_with_everything_measured(
    house: House, tmp_path: Path
) -> None:
    """`run_eval.py` itself, nothing replaced."""
    house.add("right.py", HONEST)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for _ in range(3):  # times of two short epochs, on a CPU that others may use (integrity.md)
        done = subprocess.run(
            [sys.executable, str(ROOT / "run_eval.py"), *house.arguments("--json", "--fresh")],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stdout
    (row,) = map(json.loads, done.stdout.splitlines())
    assert row["status"] == "pass"
    assert row["forward_speedup"] > 0
    assert row["forward_limit_fraction"] > 0
    assert "Traceback" not in done.stderr


# --- where standard output goes -----------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("err", [Terminal, io.StringIO])
@pytest.mark.parametrize("out", [Terminal, io.StringIO])
@pytest.mark.parametrize("json_rows", [True, False])
def test_standard_output_is_for_rows_alone(
    monkeypatch: pytest.MonkeyPatch,
    out: type[io.StringIO],
    err: type[io.StringIO],
    json_rows: bool,
) -> None:
    """`--json > rows.jsonl` in a terminal: a live line took the rows, and left the file empty."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    before, shown = out(), err()
    monkeypatch.setattr(sys, "stdout", before)
    monkeypatch.setattr(sys, "stderr", shown)
    with Screen(json_rows=json_rows) as screen:
        screen.begin("tiny", "right", "full")
        print("what the problem file prints")
        screen.row(make())
    assert (sys.stdout, sys.stderr) == (before, shown)
    lines = before.getvalue().splitlines()
    assert [json.loads(line)["status"] for line in lines] == (["pass"] if json_rows else [])
    assert "what the problem file prints" in shown.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("total", [1, 150])
def test_a_run_of_many_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, total: int, terminal: bool
) -> None:
    shown = io.StringIO()
    if terminal:
        shown.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", shown)
    with Screen(json_rows=False) as screen:
        screen.progress(1, total)
        screen.row(make())
        screen.begin("tiny", "next", "smoke")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue()).splitlines()
    assert any(line.endswith("(1 of 150)") for line in lines) == (total > 1)
    if terminal:
        assert any("1 of 150; tiny / next (smoke)" in line for line in lines) == (total > 1)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_a_name_as_text(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    """A file is called as its author likes: terminal codes, line breaks, rich's markup."""
    shown = io.StringIO()
    if terminal:
        shown.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", shown)
    with Screen(json_rows=False) as screen:
        screen.begin("tiny", "a\x1b]0;t\x07\nb\u202e [bold]x", "full")
        screen.warn("c\x1b]0;t\x07\rd")
    text = shown.getvalue()
    assert not re.search(r"\x1b\]|\x07|\u202e", text)
    assert "c ]0;t  d" in text
    assert terminal or "tiny / a ]0;t  b  [bold]x (full): start" in text
