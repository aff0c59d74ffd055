"""The options of an evaluation: arguments -> what was asked for, and its settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from harness import config
from harness.commands.arguments import Once, add_places, parser_of
from harness.config import PRESETS, Settings
from harness.errors import RequestError, hint
from harness.records import MODES

#: Options of which only one can be given.
APART = (
    ("problem", "all"),
    ("devices", "device"),
    ("devices", "ray"),
    ("devices", "watch"),
    ("ray", "watch"),
)
#: Options that are settings, and win over a preset's.
SETTINGS = (
    *("device", "dtype", "size", "trials", "modes"),
    *("cuda_arch", "sandbox", "require_own_kernels"),
)


def parse(arguments: list[str], commands: Mapping[str, str]) -> argparse.Namespace:
    """What was asked for. `commands`: name -> what it is for, of those beside evaluating.

    Raises `RequestError`.
    """
    if arguments and not arguments[0].startswith("-"):
        name = arguments[0]
        raise RequestError(
            f"no command {name!r}: {hint(name, [*commands, 'evaluate'], 'commands')}"
        )
    options = _parser(commands).parse_args(arguments)
    if not options.problem and not options.all:
        raise RequestError("name a problem with --problem, or evaluate everything with --all")
    for name in ("solution", "config"):
        if getattr(options, name) == "":  # of a variable that is not set: all is not what was meant
            raise RequestError(f"--{name} is empty: name one, or leave it out")
    for one, other in APART:
        if _given(options, one) and _given(options, other):
            raise RequestError(f"--{one} and --{other} do not go together: leave one out")
    if options.quick and options.config:
        raise RequestError("--quick is the preset quick: give it, or --config, not both")
    return options


def _given(options: argparse.Namespace, name: str) -> bool:
    return getattr(options, name) not in (None, False)


def settings(options: argparse.Namespace) -> Settings:
    """The preset, and what the options set beside it. Raises `RequestError`."""
    preset = options.config or ("quick" if options.quick else "default")
    overrides: dict[str, object] = {name: getattr(options, name) for name in SETTINGS}
    if options.fresh:
        overrides["keep_baseline"] = False
    return config.load(preset, overrides)


def _parser(commands: Mapping[str, str]) -> argparse.ArgumentParser:
    width = max(map(len, commands))
    parser = parser_of(
        "",
        "Evaluate GPU kernels against their PyTorch reference.",
        usage="run_eval.py (--problem NAME | --all) [option ...]\n"
        "       run_eval.py COMMAND [option ...]",
        epilog="commands (run_eval.py COMMAND --help tells more):\n"
        + "\n".join(f"  {name:{width}}  {what}" for name, what in commands.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_subject(parser)
    _add_device(parser)
    _add_manner(parser)
    _add_outcome(parser)
    return parser


def _add_subject(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what")
    add = group.add_argument
    text = "a problem's name, or the path of a problem file"
    add("--problem", action=Once, metavar="NAME", help=text)
    add("--all", action="store_true", help="every problem")
    add(
        "--solution",
        action=Once,
        metavar="NAME",
        help="one solution: a name, or the path of any .py, .txt or .md file; default: all",
    )
    add_places(group)
    add("--self-check", action="store_true", help="judge each reference as its own solution")


def _add_device(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("where").add_argument
    add("--device", help="auto, cpu, cuda or cuda:N; default: auto")
    add(
        "--devices",
        metavar="LIST",
        help="several at once: all, numbers and UUIDs as nvidia-smi -L has, or cpu,cpu",
    )
    add(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="on a Ray cluster (pip install .[ray]): all its GPUs, or with --device cpu its CPUs",
    )
    add("--build-only", action="store_true", help="build, do not run; nvcc needs no GPU for it")
    add("--cuda-arch", metavar="ARCH", help="architecture to build for without a GPU, such as 9.0")
    add("--sandbox", metavar="KIND", help="isolation of workers: auto, default or strict")


def _add_manner(parser: argparse.ArgumentParser) -> None:
    presets = ", ".join(sorted(path.stem for path in PRESETS.glob("*.yaml")))
    add = parser.add_argument_group("how").add_argument
    add("--dtype", help="float32 (default), float16, bfloat16 or float64")
    add(
        "--size",
        help="auto (default), full, fit, a size that the problem names, or constants: "
        "rows=8,dim=64",
    )
    add("--trials", type=int, metavar="N", help="correctness trials, each on fresh secret inputs")
    add(
        "--modes",
        type=lambda text: tuple(filter(None, text.split(","))),
        metavar="LIST",
        help=f"what is timed: some of {','.join(MODES)}; '' times nothing",
    )
    add("--quick", action="store_true", help="a first look: the preset quick, forward alone")
    add("--config", metavar="PRESET", help=f"a preset ({presets}), or a YAML file")
    add(
        "--require-backward",
        action="store_true",
        help="also of suites that ask for a forward only (KernelBench's)",
    )
    add(
        "--require-own-kernels",
        action="store_true",
        default=None,
        help="a solution of which no kernel of its own ran is a failure",
    )


def _add_outcome(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("results").add_argument
    add(
        "--output",
        type=Path,
        metavar="FILE.csv",
        help="where rows go, raw/ and logs/ beside it; default: results/DEVICE.csv",
    )
    add("--json", action="store_true", help="rows as JSON lines on standard output")
    add("--fresh", action="store_true", help="use no row or baseline of an earlier run")
    add("--watch", action="store_true", help="evaluate again whenever a file is saved")
