"""The report: every row is on it, nothing from a row takes effect, and a browser can use it."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from examples import ATTACKS, make, mode, write

from harness import cli, samples
from harness.errors import RequestError
from harness.records import (
    MODES,
    Block,
    Epoch,
    Memory,
    Row,
    Status,
    Timing,
)
from harness.report import boards, page, plots

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


#: Two problems on two devices, with one verdict of each kind.
HOUSE = {
    "h100": [
        *(make(name, ratio) for name, ratio in (("slow", 0.5), ("fast", 8.0), ("middle", 3.0))),
        make("wrong", status=Status.WRONG_OUTPUT, message="output[3] is 1.5, expected 2.5"),
        make("quick", 1.2, problem="mse"),
    ],
    "h200": [
        make("fast", 9.0, device="NVIDIA H200"),
        make("quick", 1.3, problem="mse", device="NVIDIA H200"),
    ],
}


def timing(name: str = "forward") -> Timing:
    block = Block(reference_ms=(2.0, 2.1), solution_ms=(1.0, 1.1))
    return Timing(mode=name, calls=1, epochs=(Epoch(blocks=(block,) * 3),) * 2)


class Elements(HTMLParser):
    """Counts tags, and keeps attributes and the text outside of style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes += attrs
        self._in = tag

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in not in ("style", "script"):
            self.text += data


# --- what is on it ------------------------------------------------------------------------------


def test_every_row_is_on_the_page_with_verdict_and_message(tmp_path: Path) -> None:
    text = page.html(write(tmp_path, HOUSE))
    elements = Elements(text)
    assert text.count('<tr class="row"') == 7
    assert elements.tags["details"] == 7
    assert "output[3] is 1.5, expected 2.5" in elements.text
    assert "8.00 ±0.08" in elements.text
    assert elements.text.count("NVIDIA H200") >= 2


def test_a_leaderboard_is_best_first_and_what_is_not_credited_is_last(tmp_path: Path) -> None:
    text = page.html(write(tmp_path, {"h100": HOUSE["h100"]}))
    board = text.split("kl_div, size full")[1].split("</table>")[0]
    assert re.findall(r">(\w+)</a>", board) == ["fast", "middle", "slow", "wrong"]


def test_rows_of_another_problem_text_have_a_leaderboard_of_their_own(tmp_path: Path) -> None:
    rows = [make("a"), make("b", problem_digest="q" * 16)]
    text = page.html(write(tmp_path, {"h100": rows}))
    assert "problem text pppppppp" in text
    assert "problem text qqqqqqqq" in text


def test_the_page_needs_nothing_from_anywhere(tmp_path: Path) -> None:
    elements = Elements(page.html(write(tmp_path, HOUSE)))
    assert not {"link", "img", "iframe", "object"} & set(elements.tags)
    assert elements.tags["script"] == 1
    assert not [value for name, value in elements.attributes if name == "src"]
    addresses = [value for name, value in elements.attributes if name == "href"]
    assert addresses
    assert all(value and value.startswith("#") for value in addresses)


def test_no_credit_no_bar(tmp_path: Path) -> None:
    bare = make("uncredited", status=Status.REJECTED, modes=dict.fromkeys(MODES, mode(50.0)))
    assert 'class="bar' not in page.html(write(tmp_path, {"bare": [bare]}))
    assert 'class="bar' in page.html(write(tmp_path, {"fine": [make()]}))


def test_the_roofline_has_each_mode_of_each_timed_row_once(tmp_path: Path) -> None:
    text = page.html(write(tmp_path, {"h100": HOUSE["h100"]}))
    assert len(re.findall(r'class="point', text)) == 4 * 3
    assert "fast on NVIDIA H100 80GB HBM3, forward: 50% of the limit, which is 375 us" in text


def test_what_is_not_credited_is_not_on_the_roofline(tmp_path: Path) -> None:
    claim = make("claim", status=Status.REJECTED, modes=dict.fromkeys(MODES, mode(200.0)))
    text = page.html(write(tmp_path, {"h100": [make(), claim]}))
    assert len(re.findall(r'class="point', text)) == 3
    assert "roofline" not in page.html(write(tmp_path, {"alone": [claim]})).split("</style>")[1]


def test_problems_are_named_on_the_roofline_where_there_is_room() -> None:
    modes = {"forward": mode(2.0)}
    crowd = [make(problem=f"p{n:02}" * 4, modes=modes).flat() for n in range(9)]  # one column
    apart = dataclasses.replace(mode(2.0), solution_ms=300.0)
    far = make(problem="elsewhere", modes={"forward": apart}).flat()
    drawn = plots.roofline([(0, "x", row) for row in [*crowd, far]])
    assert drawn
    near, other = (name.text for name in drawn.names)
    assert near.startswith("p00p00p00p00, p01")
    assert (len(near), near[-1]) == (plots.NAME_LENGTH, "…")
    assert other == "elsewhere"
    steps = [dataclasses.replace(mode(2.0), solution_ms=1.02**n) for n in range(60)]
    rows = [make(problem=f"p{n}", modes={"forward": m}).flat() for n, m in enumerate(steps)]
    drawn = plots.roofline([(0, "x", row) for row in rows])
    assert drawn
    for y in {name.y for name in drawn.names}:
        spans = [(n.x, len(n.text) * plots.LETTER_WIDTH / 2) for n in drawn.names if n.y == y]
        assert len(spans) > 1
        for (x, half), (after, after_half) in itertools.pairwise(spans):
            assert x + half <= after - after_half


def test_a_row_without_figures_has_its_message_in_their_place(tmp_path: Path) -> None:
    crash = make("boom", status=Status.CRASH, message="signal 11")
    silent = make("odd", status=Status.TIMEOUT)
    text = page.html(write(tmp_path, {"h100": [make(), crash, silent]}))
    cells = re.findall(r'<td class="message" colspan="7"[^>]*>(.*?)</td>', text)
    assert cells == ["signal 11", "a phase took longer than it may"]


def test_a_quick_look_is_no_failure(tmp_path: Path) -> None:
    for flags, tone in ((("quick",), "plain"), ((), "bad")):
        row = make(status=Status.FORWARD_ONLY, flags=flags)
        text = page.html(write(tmp_path / tone, {"h100": [row]}))
        assert f'<span class="verdict {tone}">forward_only</span>' in text


def test_what_one_side_lacks_is_said(tmp_path: Path) -> None:
    text = page.html(write(tmp_path, HOUSE))
    (line,) = re.findall(r"<li>(not on .*?)</li>", text)
    assert line.startswith("not on B: kl_div / middle (full, float32), kl_div / slow (full,")
    assert "fast" not in line


def test_without_times_there_is_no_roofline(tmp_path: Path) -> None:
    row = make(status=Status.CRASH)
    assert 'id="roofline"' not in page.html(write(tmp_path, {"h100": [row]}))


# --- raw samples and logs -----------------------------------------------------------------------


def test_raw_samples_beside_the_file_are_drawn(tmp_path: Path) -> None:
    paths = write(tmp_path, {"h100": [make()]})
    assert "Raw samples" not in page.html(paths)
    samples.save(tmp_path / "raw", samples.name_of("r1", "kl_div", "cuda"), {"forward": timing()})
    text = page.html(paths)
    assert "forward: 6 blocks" in text
    assert len(re.findall(r"M[\d.]+ [\d.]+h0", text)) == 6


def test_damaged_raw_samples_are_none(tmp_path: Path) -> None:
    paths = write(tmp_path, {"h100": [make()]})
    (tmp_path / "raw").mkdir()
    samples.file_for("r1--kl_div--cuda", tmp_path / "raw").write_bytes(b"no gzip")
    assert "Raw samples" not in page.html(paths)


def test_a_log_beside_the_file_is_embedded_and_bounded(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "r1" / "x.log"
    log.parent.mkdir(parents=True)
    log.write_text("first\n" + "\x1b[31mx" * 40_000 + "\nlast")
    rows = [make(log="/elsewhere/results/logs/r1/x.log")]
    text = page.html(write(tmp_path, {"h100": rows}))
    shown = text.split("<pre")[1].split("</pre>")[0]
    assert "first" in shown
    assert "last" in shown
    assert "characters left out" in shown
    assert "\x1b" not in shown
    assert len(shown) < boards.LOG_HEAD + boards.LOG_TAIL + 200


@pytest.mark.parametrize(
    "named", ["secret.log", "/etc/hostname", "../../secret.log", "..", "a/../.."]
)
def test_a_row_cannot_name_a_file_elsewhere(tmp_path: Path, named: str) -> None:
    (tmp_path / "secret.log").write_text("hunter2")
    folder = tmp_path / "results"
    (folder / "logs" / "r1").mkdir(parents=True)
    (folder / "logs" / "r1" / "link.log").symlink_to(tmp_path / "secret.log")
    rows = [make(log=named), make("linked", log="logs/r1/link.log")]
    assert "<pre" not in page.html(write(folder, {"h100": rows}))


# --- hostile rows -------------------------------------------------------------------------------


def hostile(attack: str) -> Row:
    """A row with the attack in all that a solution, or a stranger's file, can write."""
    return make(
        attack,
        status=Status.REJECTED,
        problem=attack,
        device=attack,
        message=attack,
        flags=tuple(attack.split()),
        size=attack,
        log="logs/r1/x.log",
    )


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_in_a_row_becomes_markup(tmp_path: Path, attack: str) -> None:
    log = tmp_path / "logs" / "r1" / "x.log"
    log.parent.mkdir(parents=True)
    log.write_text(attack)
    elements = Elements(page.html(write(tmp_path, {"bad": [hostile(attack)]})))
    clean = Elements(page.html(write(tmp_path, {"good": [dataclasses.replace(hostile("x"))]})))
    assert elements.tags["script"] == 1
    assert not {"img", "b"} & set(elements.tags)
    assert set(elements.tags) == set(clean.tags)
    handlers = {name for name, _ in elements.attributes if name.startswith("on")}
    assert not handlers | ({"autofocus"} & {name for name, _ in elements.attributes})
    assert not [v for n, v in elements.attributes if n == "href" and not (v or "").startswith("#")]
    assert " ".join(attack.split()) in " ".join(elements.text.split())  # and yet it is shown


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_in_a_row_becomes_markdown(tmp_path: Path, attack: str) -> None:
    text = page.markdown(write(tmp_path, {"bad": [hostile(attack)]}))
    assert not re.search(r"(?<!\\)[<>`\[]", text)
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


# --- Markdown, and the command ------------------------------------------------------------------


def test_markdown_has_each_row_and_says_why_one_did_not_pass(tmp_path: Path) -> None:
    text = page.markdown(write(tmp_path, HOUSE))
    assert text.count("\n| NVIDIA") == 7
    assert "**kl_div, size full, float32**" in text
    assert "- wrong: wrong_output: output\\[3\\] is 1.5, expected 2.5" in text


def test_the_command_writes_the_file_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(path) for path in write(tmp_path, HOUSE)]
    output = tmp_path / "new" / "report.html"
    assert cli.main(["report", *paths, "--output", str(output)]) == 0
    assert f"wrote {output}" in capsys.readouterr().out
    assert output.read_text().startswith("<!DOCTYPE html>")
    assert cli.main(["report", *paths, "--format", "markdown"]) == 0
    assert "| NVIDIA H200 | fast | pass |" in capsys.readouterr().out


def test_html_without_a_file_to_write_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(path) for path in write(tmp_path, HOUSE)]
    assert cli.main(["report", *paths]) == 2
    assert capsys.readouterr().err == "error: name the file to write with --output FILE.html\n"


def test_what_is_no_results_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(RequestError, match="no results file"):
        page.html([tmp_path / "x.csv"])


# --- in a browser -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt install chromium")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as engine:
        # A container seldom allows Chromium its own sandbox, and the page is ours.
        started = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@dataclasses.dataclass(kw_only=True)
class Window:
    """A page in the browser, and all that it complained of or asked the network for."""

    page: Any
    complaints: list[str]

    def names(self) -> list[str]:
        """The solutions shown in the first leaderboard, from the top."""
        found: list[str] = self.page.locator(
            ".board:visible >> nth=0 >> tr.row:visible td:first-child a"
        ).all_inner_texts()
        return found

    def choose(self, field: str, label: str) -> None:
        self.page.select_option(f"#{field}", label=label)


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens the report of some rows."""
    contexts = []

    def opened(rows: dict[str, list[Row]], width: int = 1280, **options: Any) -> Window:
        text = page.html(write(tmp_path, rows))
        (tmp_path / "report.html").write_text(text, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        window = Window(page=context.new_page(), complaints=[])
        window.page.on("console", lambda message: window.complaints.append(message.text))
        window.page.on("pageerror", lambda error: window.complaints.append(str(error)))
        window.page.on(
            "request",
            lambda asked: asked.url.startswith("file:") or window.complaints.append(asked.url),
        )
        window.page.goto((tmp_path / "report.html").as_uri())
        return window

    yield opened
    for context in contexts:
        context.close()


def test_a_browser_shows_every_row_and_has_nothing_to_complain_of(show: Any) -> None:
    window = show(HOUSE)
    assert window.page.locator("tr.row:visible").count() == 7
    assert window.page.locator("details:visible").count() == 7
    assert window.page.inner_text("#count") == "7 of 7 shown"
    assert window.complaints == []


def test_a_browser_sorts_by_figure_and_by_name(show: Any) -> None:
    window = show({"h100": HOUSE["h100"]})
    header = window.page.locator("th:has-text('forward') >> nth=0")
    header.locator("button").click()
    assert window.names() == ["fast", "middle", "slow", "wrong"]
    assert header.get_attribute("aria-sort") == "descending"
    header.locator("button").click()
    assert window.names() == ["slow", "middle", "fast", "wrong"]  # what is missing stays last
    window.page.locator("th button:has-text('solution') >> nth=0").focus()
    window.page.keyboard.press("Enter")
    assert window.names() == ["fast", "middle", "slow", "wrong"]
    window.page.locator("th button:has-text('training peak') >> nth=0").click()
    assert window.names()[-1] == "wrong"  # it has no such cell
    assert window.complaints == []


def test_a_browser_sorts_by_time_also_where_only_forward_was_timed(show: Any) -> None:
    rows = [make(f"x{r}", r, modes={"forward": mode(r)}) for r in (2.0, 5.0, 3.0)]
    window = show({"h100": rows})
    window.page.locator("th button:has-text('time') >> nth=0").click()
    assert window.names() == ["x2.0", "x3.0", "x5.0"]  # slowest first


def test_a_browser_filters_rows_marks_and_details_alike(show: Any) -> None:
    window = show(HOUSE)
    window.choose("verdict", "wrong_output")
    assert window.names() == ["wrong"]
    assert window.page.locator(".point:visible").count() == 0
    window.choose("verdict", "all")
    window.choose("device", "B: NVIDIA H200")
    assert window.page.locator("tr.row:visible").count() == 2
    window.choose("problem", "mse")
    assert window.names() == ["quick"]
    assert window.page.locator("details:visible").count() == 1
    window.page.fill("#search", "no such thing")
    assert window.page.inner_text("#count") == "0 of 7 shown"
    window.page.fill("#search", "QUICK h200")
    assert window.names() == ["quick"]
    assert window.complaints == []


def test_a_link_opens_the_details_of_its_row(show: Any) -> None:
    window = show(HOUSE)
    window.page.click("a:has-text('wrong')")
    assert window.page.locator("details[open] >> text=expected 2.5").is_visible()


@pytest.mark.parametrize("width", [320, 390, 768, 993, 1024, 1152, 1280])
def test_nothing_is_wider_than_the_window(show: Any, width: int) -> None:
    long = make("x" * 60, status=Status.CRASH, message="y" * 300, device="NVIDIA " + "Z" * 60)
    full = dataclasses.replace(mode(111.5), compile_speedup=123.4, reference_ms=123.4)
    memory = Memory(training_peak_mib=12345.0)
    wide = make(
        "wide", modes=dict.fromkeys(MODES, full), memory=memory, reference_memory=memory,
        flags=tuple(f"{mode}:unstable" for mode in MODES),
    )  # fmt: skip
    alone = make("alone", modes={"forward": full}, flags=("forward:unstable",))
    window = show({**HOUSE, "long": [long], "wide": [wide, alone]}, width=width)
    for one in window.page.locator("details").all():
        one.evaluate("one => { one.open = true }")
    assert window.page.evaluate("document.documentElement.scrollWidth") <= width
    assert window.page.locator("tr.row:visible").count() == 10


def test_dark_mode_is_dark_and_print_is_light(show: Any) -> None:
    window = show(HOUSE, color_scheme="dark")

    def lightness() -> tuple[int, int]:
        text = "getComputedStyle(document.body)"
        colours = window.page.evaluate(f"[{text}.backgroundColor, {text}.color]")
        back, ink = (sum(map(int, re.findall(r"\d+", colour)[:3])) // 3 for colour in colours)
        return back, ink

    back, ink = lightness()
    assert back < 60
    assert ink > 180
    window.page.emulate_media(media="print")
    back, ink = lightness()
    assert back > 240
    assert ink < 60
    window.page.set_viewport_size({"width": 700, "height": 900})  # of a sheet: still a table
    displayed = "one => getComputedStyle(one).display"
    assert window.page.locator("tr.row >> nth=0").evaluate(displayed) == "table-row"
    assert window.page.evaluate("document.documentElement.scrollWidth") <= 700
    assert not window.page.locator("#filters").is_visible()
    assert window.page.locator("tr.row:visible").count() == 7


def test_controls_have_names_and_headers_are_buttons(show: Any) -> None:
    window = show(HOUSE)
    for name in ("Search", "Problem", "Device", "Verdict"):
        assert window.page.get_by_label(name, exact=True).count() == 1
    headers = window.page.locator(".sortable th")
    assert headers.count() == window.page.locator(".sortable th[scope=col] button").count()
    assert window.page.locator("svg[role=img]").count() >= 1
    unnamed = "svg[role=img]:not([aria-label]):not([aria-labelledby])"
    assert window.page.locator(unnamed).count() == 0


def test_hostile_rows_run_nothing_in_a_browser(show: Any) -> None:
    window = show({"bad": [hostile(attack) for attack in ATTACKS]})
    for one in window.page.locator("details").all():
        one.evaluate("one => { one.open = true }")
    window.page.mouse.move(300, 300)
    assert window.page.evaluate("window.hit") is None
    assert window.complaints == []
    assert window.page.locator("tr.row:visible").count() == len(ATTACKS)


def test_the_policy_of_the_page_stops_a_script_that_got_in(show: Any) -> None:
    window = show(HOUSE)
    window.page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.hit = 1';"
        "document.body.append(s)"
    )
    assert window.page.evaluate("window.hit") is None
    assert any("Content Security Policy" in text for text in window.complaints)
