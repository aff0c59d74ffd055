"""The picture: every credited row is on it, and what a name says is text."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import pytest
from examples import ATTACKS, make, mode, write

from harness import cli
from harness.errors import RequestError
from harness.records import Row, Status
from harness.report import picture

SVG = "{http://www.w3.org/2000/svg}"


def drawn(folder: Path, *rows: Row) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg(write(folder, {"a": list(rows)})))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_what_is_credited_is_drawn_with_its_figures_and_nothing_else(tmp_path: Path) -> None:
    compiled = dataclasses.replace(mode(4.0), compiled_speedup=3.0)
    root = drawn(
        tmp_path,
        make("fused", modes={"forward": compiled, "forward_backward": mode(2.0)}),
        make("wrong", status=Status.WRONG_OUTPUT, modes={"forward": mode(9.0)}),
        make("slow", modes={"forward": mode(0.5)}, problem="mse"),
    )
    told = texts(root)
    assert {"fused", "slow", "4.00 ±0.04", "2.00 ±0.02"} < set(told)
    assert "wrong" not in told
    kinds = [element.get("class") for element in root.iter()]
    assert (kinds.count("faster"), kinds.count("slower")) == (2, 1)
    assert kinds.count("compiled") == 2  # one, and the legend's


def test_bars_lie_inside_of_the_picture_in_their_order(tmp_path: Path) -> None:
    rows = [make(f"s{ratio}", modes={"forward": mode(ratio)}) for ratio in (0.01, 1.0, 300.0)]
    root = drawn(tmp_path, *rows)
    bars = [e for e in root.iter(f"{SVG}rect") if e.get("class") in ("faster", "slower")]
    ends = [(float(e.get("x", 0)), float(e.get("width", 0))) for e in bars]
    assert len(ends) == 3
    assert all(x >= picture.LEFT and x + w <= picture.WIDTH - picture.RIGHT for x, w in ends)
    assert ends[0][1] < ends[2][1]


@pytest.mark.parametrize("name", ATTACKS)
def test_a_name_is_text(tmp_path: Path, name: str) -> None:
    root = drawn(tmp_path, make(name, problem=name, device=name))
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "title", "style", "rect", "path", "text"}
    assert any(text and text[:10] in name for text in texts(root))


def test_nothing_credited_is_nothing_to_draw(tmp_path: Path) -> None:
    paths = write(tmp_path, {"a": [make(status=Status.REJECTED)]})
    with pytest.raises(RequestError, match="nothing to draw"):
        picture.svg(paths)


def test_the_command_asks_for_a_file_and_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = write(tmp_path, {"a": [make()]})
    assert cli.main(["report", str(path), "--format", "svg"]) == 2
    assert "--output FILE.svg" in capsys.readouterr().err
    output = tmp_path / "out.svg"
    assert cli.main(["report", str(path), "--format", "svg", "--output", str(output)]) == 0
    assert ElementTree.parse(output).getroot().tag == f"{SVG}svg"
