"""Raw samples: read back as they were written, and never over one another."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from harness import samples
from harness.errors import MachineError, RequestError
from harness.records import MODES, Block, Epoch, Timing


def timing(mode: str) -> Timing:
    block = Block(reference_ms=(0.1 + 0.2, 2.0), solution_ms=(1 / 3, 1e-9))
    return Timing(
        mode=mode,
        calls=3,
        epochs=(
            Epoch(blocks=(block, block), disturbed=(block,), wall_s=0.5),
            Epoch(blocks=(block,)),
        ),
        minima=True,
        flags=("noisy",),
    )


def test_raw_samples_read_back_identically(tmp_path: Path) -> None:
    timings = {mode: timing(mode) for mode in MODES}
    first = samples.save(tmp_path / "raw", "20260101T000000-ab--kl_div--fused", timings)
    second = samples.save(tmp_path / "raw", "20260101T000000-ab--kl_div--fused", {})
    assert first.parent == tmp_path / "raw"
    assert first.name == "20260101T000000-ab--kl_div--fused-" + first.name[-16:]
    assert second != first
    assert samples.load(first) == timings
    assert samples.load(first)["forward"].interval == timings["forward"].interval
    assert samples.load(second) == {}


def test_no_two_evaluations_share_a_file(tmp_path: Path) -> None:
    parts = [("r1", "level1/1_A", "s"), ("r1", "level1_1_A", "s"), ("r2", "level1/1_A", "s")]
    names = [samples.name_of(*part) for part in parts]
    paths = [samples.save(tmp_path, name, {}) for name in names]
    assert paths == [samples.file_for(name, tmp_path) for name in names]
    assert {path.parent for path in paths} == {tmp_path}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        gzip.compress(b"{}"),
        gzip.compress(b"[]"),
        gzip.compress(b'{"timings": []}'),
        gzip.compress(json.dumps({"timings": {"forward": {"epochs": 3}}}).encode()),
        gzip.compress(b"{" * 100)[:-9],
    ],
    # Compressed bytes hold the time of day, and names of tests may not.
    ids=["nothing", "no gzip", "empty", "a list", "timings in a list", "a number of epochs", "cut"],
)
def test_a_file_of_other_content_holds_no_samples(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(content)
    with pytest.raises(RequestError, match="cannot read raw samples"):
        samples.load(path)


@pytest.mark.parametrize(
    "values", ["[0, 1]", '["a", "b"]', "[-1, 1]", "[NaN, 1]", "[1, Infinity]", "[1]", "[1, 1, 1]"]
)
def test_samples_that_are_no_times_are_none(tmp_path: Path, values: str) -> None:
    path = samples.save(tmp_path, "r1", {"forward": timing("forward")})
    text = gzip.decompress(path.read_bytes()).decode()
    assert "[0.30000000000000004, 2.0]" in text
    path.write_bytes(gzip.compress(text.replace("[0.30000000000000004, 2.0]", values).encode()))
    with pytest.raises(RequestError, match="cannot read raw samples"):
        samples.load(path)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="raw samples"):
        samples.save(tmp_path / "file", "r1", {})
