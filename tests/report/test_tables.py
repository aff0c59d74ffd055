"""Tables: only digits that were measured, at any width, and no text of a solution takes effect."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from typing import Any

import examples
import pytest
from rich.console import Console

from harness import cli
from harness.records import (
    MODES,
    Memory,
    ModeResult,
    Row,
    Status,
)
from harness.report import tables

MODE = ModeResult(
    reference_ms=5.99,
    solution_ms=1.99,
    speedup=3.013,
    low=3.001,
    high=3.025,
    compile_speedup=1.023,
    compile_low=1.01,
    compile_high=1.04,
    limit_fraction=0.974,
)


def make(
    solution: str = "inline_cuda", status: Status = Status.PASS, message: str = "", **changes: Any
) -> Row:
    row = examples.make(
        solution,
        status=status,
        message=message,
        modes=dict.fromkeys(MODES, MODE),
        memory=Memory(training_peak_mib=8396.8),
        reference_memory=Memory(training_peak_mib=12595.2),
    )
    return dataclasses.replace(row, **changes)


def show(
    rows: list[Row], width: int = 100, *, terminal: bool = False, encoding: str = "utf-8"
) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(
        file=stream, width=width, force_terminal=terminal, _environ={"TERM": "xterm-256color"}
    )
    console.print(tables.verdict_table(rows))
    stream.flush()
    return raw.getvalue().decode(encoding)


# --- formatters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        (2.013, 2.013 * 0.996, 2.013 * 1.004, "2.01 ±0.01"),
        (2.013, 2.0, 2.026, "2.01 ±0.02"),  # 0.013 is rounded up, never down
        (2.013, 2.01, 2.043, "2.01 ±0.03"),  # the wider side counts
        (2.013, 1.983, 2.043, "2.01 ±0.03"),  # 0.03 * 100 is a little over 3
        (2.013, 2.01299, 2.01301, "2.01 ±0.01"),  # never ±0.00
        (2.013, 2.013, 2.013, "2.01 ±0.01"),
        (2.013, 1.9, 2.2, "2.0 ±0.2"),
        (2.013, 1.918, 2.108, "2.0 ±0.1"),  # 0.095 is 0.1
        (2.013, 1.0, 3.1, "2 ±2"),
        (12.34, 12.3, 12.38, "12.34 ±0.04"),
        (12.34, 11.0, 13.6, "12 ±2"),
        (123.4, 120.0, 126.0, "123 ±4"),
        (1234.0, 1180.0, 1290.0, "1230 ±60"),
        (0.5131, 0.511, 0.515, "0.513 ±0.003"),
        (0.01234, 0.01233, 0.01235, "0.0123 ±0.0001"),
        (0.01234, 0.0, 0.2, "0.0 ±0.2"),
        (1.0, 0.999, 1.001, "1.00 ±0.01"),
        (2.04, None, None, "2.0 ±?"),
        (0.0123, None, None, "0.012 ±?"),
        (123.0, 1.0, None, "120 ±?"),
        (2, 1, 3, "2 ±1"),
        (None, None, None, "-"),
        (float("nan"), 1.0, 2.0, "-"),
        (float("inf"), 1.0, 2.0, "-"),
        (2.04, float("-inf"), 3.0, "2.0 ±?"),
        (0.0, 0.0, 0.0, "0.00 ±0.01"),
    ],
)
def test_a_speedup_has_only_the_digits_that_its_interval_carries(
    ratio: float | None, low: float | None, high: float | None, text: str
) -> None:
    assert tables.speedup(ratio, low, high) == text


def test_an_interval_is_never_shown_narrower_than_it_is() -> None:
    for tenths in range(1, 4000, 7):
        half = tenths / 1e4
        shown = float(tables.speedup(2.0, 2.0 - half, 2.0 + half).split("±")[1])
        assert half <= shown * (1 + 1e-9)
        assert shown <= max(0.01, 2 * half)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5.994, "5.99 ms"),
        (0.87, "870 us"),
        (0.0066, "6.60 us"),
        (0.0000012, "0.00120 us"),
        (0.99949, "999 us"),
        (0.9996, "1.00 ms"),
        (27.42, "27.4 ms"),
        (999.4, "999 ms"),
        (999.6, "1.00 s"),
        (61234, "61.2 s"),
        (1234567.0, "1230 s"),
        (0, "0 us"),
        (None, "-"),
        (float("nan"), "-"),
    ],
)
def test_times_have_three_digits_in_the_unit_that_fits(value: float | None, text: str) -> None:
    assert tables.quantity(value, tables.TIME) == text


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (5.99, 1.99, "5.99 → 1.99 ms"),
        (5.99, 0.87, "5.99 ms → 870 us"),
        (None, 1.99, "- → 1.99 ms"),
        (5.99, None, "5.99 ms → -"),
        (None, None, "-"),
    ],
)
def test_a_pair_states_its_unit_once(first: float | None, second: float | None, text: str) -> None:
    assert tables.pair(first, second, tables.TIME, "→") == text


@pytest.mark.parametrize(
    ("number", "text"), [(3.4, "3.40"), (0.9178, "0.918"), (123.4, "123"), (1.0, "1.00")]
)
def test_a_mean_has_three_digits_always(number: float, text: str) -> None:
    assert tables.digits(number) == text


def test_memory_is_in_its_best_unit() -> None:
    assert tables.quantity(1.5, tables.MEMORY) == "1.50 MiB"
    assert tables.quantity(0.25, tables.MEMORY) == "256 KiB"
    assert tables.quantity(4198.4, tables.MEMORY) == "4.10 GiB"
    assert tables.pair(8396.8, 12595.2, tables.MEMORY, "/") == "8.20 / 12.3 GiB"


# --- the table ----------------------------------------------------------------------------------


def test_the_table_says_all_of_it_at_full_width() -> None:
    text = show([make()], 120)
    assert "kl_div, size full, float32, on NVIDIA H100 80GB HBM3" in text
    row = next(line for line in text.splitlines() if line.startswith("inline_cuda"))
    assert row.split("  ")[0] == "inline_cuda"
    assert row.count("3.01 ±0.02") == 3
    for part in ("pass", "1.02", "5.99 → 1.99 ms", "97%", "8.20 / 12.3 GiB"):
        assert part in row


def test_only_credited_speedups_are_shown_and_times_are_kept() -> None:
    for status, count in (
        (Status.PASS, 3),
        (Status.FORWARD_ONLY, 1),
        (Status.WRONG_GRADIENT, 0),
        (Status.REJECTED, 0),
        (Status.NOT_EXERCISED, 0),
    ):
        text = show([make(status=status)], 120)
        assert text.count("3.01 ±0.02") == count, status
        assert text.count("1.02") == (status is Status.PASS), status
        assert "5.99 → 1.99 ms" in text


def test_a_table_without_backward_says_which_time_it_shows() -> None:
    modes = {"forward": MODE}
    text = show([make(status=Status.FORWARD_ONLY, modes=modes)], 120)
    assert "forward 5.99 → 1.99 ms" in text


def test_columns_that_nobody_has_a_value_for_are_left_out() -> None:
    bare = ModeResult(reference_ms=5.99, solution_ms=1.99, speedup=3.0, low=2.9, high=3.1)
    text = show([make(modes=dict.fromkeys(MODES, bare), memory=None, reference_memory=None)], 120)
    assert "limit" not in text
    assert "piled" not in text
    assert "peak" not in text
    assert "limit" in show([make(), make(modes=dict.fromkeys(MODES, bare))], 120)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_what_was_only_built_has_no_size_and_no_times(width: int) -> None:
    nothing: dict[str, Any] = {"size": "", "modes": {}, "memory": None, "reference_memory": None}
    rows = [
        make("inline_cuda", Status.BUILT, "1 extension built", **nothing),
        make("inline_cpp", Status.SKIPPED, "needs a CPU device", **nothing),
    ]
    text = show(rows, width)
    assert text.startswith("kl_div, float32, on NVIDIA")
    assert "size" not in text
    assert max(map(len, text.splitlines())) <= width
    table = text[text.index("solution") :].splitlines()
    assert [line.split() for line in table[:3]] == [
        ["solution", "verdict"],
        ["inline_cuda", "built"],
        ["inline_cpp", "skipped"],
    ]


def test_a_speedup_that_was_measured_and_is_not_credited_has_an_empty_column() -> None:
    header = show([make(status=Status.WRONG_GRADIENT)], 120).splitlines()[1:3]
    assert "forward" in header[1]
    assert "both" in header[1]


def mixed() -> list[Row]:
    return [
        make(),
        make("inline_cpp", Status.SKIPPED, "needs a GPU", modes={}, memory=None),
        make("a_solution_with_quite_a_long_name", Status.WRONG_GRADIENT, "grad x: 3 of 7 differ"),
    ]


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_table_fits_and_keeps_what_matters(width: int, terminal: bool) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", show(mixed(), width, terminal=terminal))
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    header = text.split("inline_cuda")[0]
    for column in ("solution", "verdict", "forward", "both"):
        assert column in header
    row = next(line for line in text.splitlines() if line.lstrip().startswith("inline_cuda"))
    assert row.count("3.01 ±0.02") == (2 if width < 100 else 3)
    assert ("ref." in header) == (width >= 80)
    assert ("peak" in header) == (width >= 100)
    assert ("limit" in header) == (width >= 140)


@pytest.mark.parametrize("width", [1, 5, 20, 40])
def test_an_absurd_width_is_no_crash(width: int) -> None:
    assert max(map(len, show(mixed(), width).splitlines())) <= max(width, 1)


def test_a_pipe_gets_plain_text_and_a_terminal_gets_colour() -> None:
    assert "\x1b" not in show(mixed())
    assert "\x1b" in show(mixed(), terminal=True)


def test_in_a_pipe_each_note_is_one_line_and_the_table_still_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    long = "element [3, 17] of output is off by 0.25 " * 9
    cli._print_tables([make(), make("other", Status.WRONG_OUTPUT, long, log="logs/" + "x" * 90)])
    lines = capsys.readouterr().out.splitlines()
    [note] = [line for line in lines if line.startswith("other: ")]
    assert note == f"other: {long.strip()} (log: logs/{'x' * 90})"
    assert max(len(line) for line in lines if line != note) <= 80


def test_a_stream_without_unicode_gets_ascii() -> None:
    text = show(mixed(), 120, encoding="ascii")
    assert "3.01 +-0.02" in text
    assert "5.99 -> 1.99 ms" in text


def test_each_problem_size_dtype_and_device_has_its_own_table() -> None:
    other = dataclasses.replace(make().environment, device_name="NVIDIA A100")
    rows = [
        make("a"),
        make("b", problem="mse"),
        make("c"),
        make("d", size="odd"),
        make("e", dtype="float16"),
        make("f", environment=other),
    ]
    text = show(rows, 120)
    assert text.count(", size ") == 5
    assert text.index("\nc ") < text.index("mse, size full")


def test_below_the_table_is_why_and_where_the_log_is() -> None:
    rows = [
        make("good"),
        make("noisy", flags=("noisy", "beats_limit")),
        make("answer", message="block 2 of 3, lines 40-95"),
        make("broken", Status.COMPILE_ERROR, "k.cu:3: no member dtype", log="results/logs/b.log"),
        make("mute", Status.CRASH),
    ]
    notes = [line for line in show(rows, 120).splitlines() if ": " in line]
    assert notes == [
        "noisy: flags: noisy, beats_limit",
        "answer: block 2 of 3, lines 40-95",
        "broken: k.cu:3: no member dtype (log: results/logs/b.log)",
        "mute: crash",
    ]


@pytest.mark.parametrize(
    "text",
    ["[bold]x[/bold] [/] [link=a]", "\x1b[2J\x1b]0;title\x07", "a\r\nb\tc\x9b31m", "\u202egnp.exe"],
)
def test_text_of_a_solution_takes_no_effect(text: str) -> None:
    shown = show([make(text, Status.RUNTIME_ERROR, text, log=text, flags=(text,))], 200)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
    plain = tables.one_line(text)
    assert f"{plain}: {plain} (log: {plain})" in shown
    assert "[bold]x[/bold]" in shown or "bold" not in text


def test_no_rows_make_no_table() -> None:
    assert show([]) == ""


# --- json ---------------------------------------------------------------------------------------


def test_rows_for_json_are_flat_rows_and_parse() -> None:
    odd = make(error_ratio=float("inf"), own_share=float("nan"))
    rows = tables.plain_rows([make(), odd])
    assert rows[0] == make().flat()
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert (rows[1]["error_ratio"], rows[1]["own_share"]) == (None, None)
