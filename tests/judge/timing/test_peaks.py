"""What a worker holds, as the judge sees it, beside what it claims."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.judge import device
from harness.judge.process.sandbox import Worker
from harness.judge.process.watermark import Held, Watermark
from harness.judge.timing import peaks
from harness.judge.timing.peaks import Peaks
from harness.records import Memory

CPU = device.choose("cpu")


def measured(claim_mib: float, held: Held, *, kept_mib: float = 0.0) -> Peaks:
    return Peaks(
        memory=Memory(inference_peak_mib=claim_mib),
        held={"forward": held},
        claimed_mib={"forward": claim_mib + kept_mib},
    )


def on_cpu(claim_mib: float, host_mib: float) -> Peaks:
    return measured(claim_mib, Held(host_mib=host_mib))


def test_what_is_held_beyond_the_claim_and_beyond_what_a_worker_holds_anyway_is_added() -> None:
    usual = on_cpu(100.0, 400.0)
    shown, flags = on_cpu(50.0, 700.0).beside(usual)
    assert flags == [peaks.OUTSIDE]
    assert shown.inference_peak_mib == 400.0  # 50 claimed, and 350 besides
    assert shown.hidden_mib == 350.0
    assert shown.training_peak_mib is None


@pytest.mark.parametrize("claim_mib", [50.0, 100.0, 5000.0])
def test_an_honest_claim_is_shown_as_it_is(claim_mib: float) -> None:
    honest = on_cpu(claim_mib, 300.0 + claim_mib + 100.0)  # 100 MiB of libraries
    shown, flags = honest.beside(on_cpu(100.0, 400.0))
    assert flags == []
    assert shown == honest.memory


@pytest.mark.parametrize("host_mib", [0.0, None])
def test_on_a_gpu_what_the_allocator_keeps_is_no_secret(host_mib: float | None) -> None:
    def on_gpu(
        claim: float, kept: float, device_mib: float, host: float | None = host_mib
    ) -> Peaks:
        held = Held(device_mib=device_mib, host_mib=host)
        return measured(claim, held, kept_mib=kept)

    usual = on_gpu(100.0, 20.0, 620.0)  # a context of 500
    assert on_gpu(100.0, 900.0, 1500.0).beside(usual)[1] == []
    assert on_gpu(100.0, 20.0, 820.0).beside(usual)[0].inference_peak_mib == 300.0
    staging = on_gpu(100.0, 20.0, 620.0, 200.0).beside(usual)[1]
    assert staging == ([peaks.OUTSIDE] if host_mib is not None else [])


def test_what_was_seen_in_another_way_is_not_compared() -> None:
    usual = measured(100.0, Held(device_mib=600.0))
    whole = measured(100.0, Held(device_mib=9000.0, whole_device=True))
    assert whole.beside(usual)[1] == []
    assert on_cpu(1.0, 9000.0).beside(Peaks())[1] == []
    assert Peaks().beside(usual) == (Memory(), [])


def test_less_than_the_inputs_is_no_peak() -> None:
    assert on_cpu(2.0, 0.0).complaint(2 << 20) is None
    text = on_cpu(1.9, 0.0).complaint(2 << 20)
    assert text is not None
    assert "1.9 MiB" in text
    assert Peaks().complaint(2 << 20) is None


USUAL = """
answer()
answer()
receive()
"""
KEPT = """
kept = bytearray(b"x") * (96 << 20)
answer()
answer()
receive()
"""
GONE = """
kept = bytearray(b"x") * (96 << 20)
answer()
answer()
"""
SHORT = """
answer()
order = receive()
kept = bytearray(b"x") * (96 << 20)
del kept
send({"nonce": order["nonce"], "answer": {}})
receive()
"""
CHILD = """
code = "import time; kept = bytearray(b'x') * (96 << 20); print(flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
answer()
answer()
receive()
"""
NONE = """
kept = bytearray(b"x") * (96 << 20)
del kept
answer()
answer()
receive()
"""


def held_by(worker: Worker) -> Held:
    """What is seen during an order."""
    worker.start(30.0)
    with Watermark(worker, CPU) as mark:
        worker.ask("memory", timeout_s=30.0)
    return mark.held


@pytest.mark.parametrize(
    ("script", "kept_mib"),
    [(KEPT, 96), (GONE, 96), (SHORT, 96), (CHILD, 96), (NONE, 0)],
    ids=[
        "kept",
        "kept until it ends",
        "given back within the order",
        "in another process",
        "given back before",
    ],
)
def test_the_most_that_all_processes_held_during_an_order_is_seen(
    fake_worker: Callable[..., Worker], script: str, kept_mib: float
) -> None:
    usual = held_by(fake_worker(USUAL))
    held = held_by(fake_worker(script))
    assert held.device_mib is None
    beyond = held.beyond(usual, 0.0)
    assert beyond is not None
    assert beyond == pytest.approx(kept_mib, abs=40)  # what is mapped of files differs, too
