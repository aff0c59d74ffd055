"""What is built for one CPU is not taken for another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cpu
from harness.worker.building import Builder

X86 = """\
processor	: 0
model name	: AMD EPYC
cpu MHz		: 2596.132
flags		: fpu sse2 avx2
bogomips	: 5192.26

processor	: 1
model name	: AMD EPYC
cpu MHz		: 3100.000
flags		: fpu sse2 avx2
"""
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd sve\nCPU part\t: 0xd40\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "same"),
    [
        (X86, "avx2\nbogo", "avx2 avx512f\nbogo", False),
        (X86, "AMD EPYC\ncpu MHz\t\t: 25", "Intel Xeon\ncpu MHz\t\t: 25", False),
        (X86, "2596.132", "800.000", True),
        (X86, "5192.26", "5000.00", True),
        (X86, "processor\t: 1", "processor\t: 7", True),
        (ARM, "sve", "sve sve2", False),
        (ARM, "0xd40", "0xd4f", False),
        (ARM, "50.00", "60.00", True),
    ],
)
def test_the_digest_follows_the_instructions_and_nothing_else(
    text: str, old: str, new: str, same: bool
) -> None:
    assert text.count(old) == 1
    assert (cpu.digest_of(text) == cpu.digest_of(text.replace(old, new))) == same


def test_a_machine_has_one_digest_and_one_that_says_nothing_has_one_too() -> None:
    assert cpu.digest() == cpu.digest()
    assert len(cpu.digest()) == len(cpu.digest_of("")) == 8


def test_a_build_of_another_cpu_is_not_taken_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Builder(cache=tmp_path, salt="s")
    here = builder._key({"inline": "x"}, {})
    assert builder._key({"inline": "x"}, {}) == here
    monkeypatch.setattr(cpu, "digest", lambda: "another")
    assert builder._key({"inline": "x"}, {}) != here
