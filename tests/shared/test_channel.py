"""The wire: what is sent arrives, what is not a message is an error, nothing is executed."""

from __future__ import annotations

import fcntl
import json
import math
import os
import pickle
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.shared import channel, encoding
from harness.shared.channel import Channel, ChannelClosed, ChannelError, ChannelTimeout, Message

DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64,
    torch.complex128, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64,
    torch.uint32, torch.uint16, torch.uint8, torch.bool,
)  # fmt: skip


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    a, b = socket.socketpair()
    left, right = Channel(a), Channel(b)
    yield left, right
    left.close()
    right.close()


@pytest.fixture
def raw() -> Iterator[tuple[socket.socket, Channel]]:
    """A bare socket to misbehave with, and the channel that reads from it."""
    a, b = socket.socketpair()
    reader = Channel(b)
    yield a, reader
    a.close()
    reader.close()


def soon() -> float:
    return time.monotonic() + 20


def travel(ends: tuple[Channel, Channel], tree: Any, cap: int = 1 << 30) -> Any:
    """`tree` after a trip; sent from a thread, since a socket holds only so much."""
    sender = threading.Thread(target=ends[0].send, args=({}, {"tree": tree}))
    sender.start()
    message = ends[1].receive(deadline=soon(), max_tensor_bytes=cap)
    sender.join()
    return message.trees["tree"]


def header(**parts: Any) -> bytes:
    body = json.dumps({"body": {}, "trees": {}, "tensors": []} | parts).encode()
    return struct.pack("<Q", len(body)) + body


def assert_same(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert actual.dtype is expected.dtype
        assert actual.shape == expected.shape
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key in expected:
            assert_same(actual[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            assert_same(a, b)
    else:
        assert actual == expected or (actual != actual and expected != expected)


# --- what is sent arrives -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_arrives_bit_by_bit(
    ends: tuple[Channel, Channel], dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = (torch.randn(shape) * 3).to(dtype)
    assert_same(travel(ends, tensor), tensor)


def test_not_a_number_infinities_and_negative_zero_arrive(ends: tuple[Channel, Channel]) -> None:
    tensor = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 5e-45])
    arrived = travel(ends, tensor)
    assert torch.equal(arrived.view(torch.int32), tensor.view(torch.int32))


@pytest.mark.parametrize(
    "tree",
    [
        None,
        True,
        False,
        0,
        -(2**70),
        1.5,
        math.inf,
        math.nan,
        [],
        (),
        {},
        [None, (1, 2.0), {"a": [torch.ones(2), True]}],
        (torch.zeros(()), [torch.tensor(True)], {"x": None, "y": (torch.ones(1, 2),)}),
    ],
    ids=str,
)
def test_a_tree_arrives_with_its_containers_and_numbers(
    ends: tuple[Channel, Channel], tree: Any
) -> None:
    assert_same(travel(ends, tree), tree)


def test_views_arrive_as_their_values(ends: tuple[Channel, Channel]) -> None:
    base = torch.arange(24.0).view(4, 6)
    for view in (base.t(), base[:, 1:3], base[:1].expand(5, 6), base.flip(0), base[:1, ::6]):
        assert_same(travel(ends, view), view.clone())
    for marked in (torch.randn(3, 2, dtype=torch.complex64).conj(), base.to(torch.cfloat).mH.imag):
        assert marked.is_conj() or marked.is_neg()
        assert_same(travel(ends, marked), marked.resolve_conj().resolve_neg())


def test_bytes_that_cannot_be_had_are_found_out_before_anything_is_sent(
    ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tensor: torch.Tensor) -> memoryview:
        raise RuntimeError("no bytes")

    with monkeypatch.context() as patch:
        patch.setattr(encoding, "raw_bytes", fail)
        with pytest.raises(RuntimeError):
            ends[0].send({}, {"tree": torch.ones(2)})
    ends[0].send({"next": 1})
    assert ends[1].receive(deadline=soon()).body == {"next": 1}


def test_one_tensor_twice_arrives_twice(ends: tuple[Channel, Channel]) -> None:
    tensor = torch.ones(3)
    assert_same(travel(ends, [tensor, tensor]), [tensor, tensor])


def test_what_requires_grad_arrives_without_it(ends: tuple[Channel, Channel]) -> None:
    arrived = travel(ends, torch.ones(3, requires_grad=True) * 2)
    assert not arrived.requires_grad


def test_a_tensor_larger_than_a_socket_holds_arrives(ends: tuple[Channel, Channel]) -> None:
    tensor = torch.randn(1 << 20)
    assert_same(travel(ends, tensor), tensor)


def test_messages_arrive_in_order_with_their_bodies(ends: tuple[Channel, Channel]) -> None:
    for number in range(3):
        ends[0].send({"order": number, "text": "ü\n"}, {"t": torch.full((2,), number)})
    for number in range(3):
        message = ends[1].receive(deadline=soon())
        assert message.body == {"order": number, "text": "ü\n"}
        assert message.trees["t"].tolist() == [number, number]


def test_a_closed_message_has_no_trees_left(ends: tuple[Channel, Channel]) -> None:
    ends[0].send({}, {"t": torch.ones(2)})
    message: Message = ends[1].receive(deadline=soon())
    message.close()
    assert message.trees == {}


@pytest.mark.parametrize(
    "tree",
    [
        "text",
        object(),
        torch.eye(2).to_sparse(),
        torch.ones(2).to(torch.float8_e4m3fn),
        [1, {"a": b"bytes"}],
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_what_cannot_be_compared_is_refused_before_anything_is_sent(
    ends: tuple[Channel, Channel], tree: Any
) -> None:
    with pytest.raises(TypeError, match="cannot be compared"):
        ends[0].send({}, {"tree": tree})
    ends[0].send({"next": 1})
    assert ends[1].receive(deadline=soon()).body == {"next": 1}


# --- what is not a message ----------------------------------------------------------------------


def refusal(raw: tuple[socket.socket, Channel], data: bytes, cap: int = 1 << 20) -> ChannelError:
    raw[0].sendall(data)
    raw[0].shutdown(socket.SHUT_WR)
    with pytest.raises(ChannelError) as caught:
        raw[1].receive(deadline=soon(), max_tensor_bytes=cap)
    return caught.value


def spec(**parts: Any) -> dict[str, Any]:
    return {"dtype": "float32", "shape": [2], "device": "cpu"} | parts


def test_json_over_the_limit_is_refused_unread(raw: tuple[socket.socket, Channel]) -> None:
    error = refusal(raw, struct.pack("<Q", channel.MAX_JSON_BYTES + 1))
    assert "over" in str(error)
    assert not isinstance(error, ChannelClosed)


def test_tensor_bytes_over_the_cap_are_refused_unread(raw: tuple[socket.socket, Channel]) -> None:
    error = refusal(raw, header(tensors=[spec(shape=[1 << 40])]), cap=1 << 20)
    assert "allowed" in str(error)


def test_tensor_bytes_at_the_cap_are_taken(ends: tuple[Channel, Channel]) -> None:
    assert travel(ends, torch.ones(4), cap=16).shape == (4,)
    ends[0].send({}, {"tree": torch.ones(4)})
    with pytest.raises(ChannelError, match=r"16 bytes .* 15 allowed"):
        ends[1].receive(deadline=soon(), max_tensor_bytes=15)


def test_many_small_tensors_count_together(raw: tuple[socket.socket, Channel]) -> None:
    assert "allowed" in str(refusal(raw, header(tensors=[spec()] * 100), cap=799))


@pytest.mark.parametrize(
    "bad",
    [
        spec(shape=[-1]),
        spec(shape=[2, -3]),
        spec(shape=[1] * 65),
        spec(shape=[math.inf]),
        spec(shape=[math.nan]),
        spec(shape=["x"]),
        spec(shape=[[2]]),
        spec(shape=None),
        spec(shape=[2**70, 0]),
        spec(shape=[2**62, 2**62, 0]),
        spec(dtype="float128"),
        spec(dtype="os.system"),
        spec(dtype=["float32"]),
        spec(dtype=None),
        spec(device="meta"),
        spec(device=None),
        spec(ipc={"handle": "00", "offset": 0}, device="cuda"),
        spec(ipc="handle", device="cuda"),
        spec(ipc={"handle": "00" * 64, "offset": 0}),
        spec(shape=[True]),
        spec(shape=[1.0]),
        {},
        [],
        7,
        None,
        "float32",
    ],
    ids=str,
)
def test_a_tensor_that_does_not_add_up_is_refused(
    raw: tuple[socket.socket, Channel], bad: Any
) -> None:
    error = refusal(raw, header(tensors=[bad]) + bytes(8))
    assert not isinstance(error, ChannelClosed | ChannelTimeout)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU takes it")
def test_a_tensor_for_a_device_that_is_not_here_is_refused(
    raw: tuple[socket.socket, Channel],
) -> None:
    assert "cuda" in str(refusal(raw, header(tensors=[spec(device="cuda")]) + bytes(8)))


@pytest.mark.parametrize(
    "tree",
    [
        5,
        None,
        [],
        {},
        {"value": 1, "tensor": 0},
        {"tensor": 0},
        {"tensor": -1},
        {"tensor": "0"},
        {"value": [1]},
        {"value": "text"},
        {"list": 5},
        {"list": [5]},
        {"tuple": None},
        {"dict": [["a"]]},
        {"dict": {"a": 1}},
        {"float": "one"},
        {"float": None},
        {"float": 10**400},
        {"code": "print(1)"},
    ],
    ids=lambda tree: str(tree)[:40],
)
def test_a_tree_that_is_none_is_refused(raw: tuple[socket.socket, Channel], tree: Any) -> None:
    assert not isinstance(refusal(raw, header(trees={"t": tree})), ChannelClosed)


def test_a_tree_nested_without_end_is_refused(raw: tuple[socket.socket, Channel]) -> None:
    depth = 200
    tree = '{"list": [' * depth + '{"value": 1}' + "]}" * depth
    text = b'{"body": {}, "tensors": [], "trees": {"t": ' + tree.encode() + b"}}"
    refusal(raw, struct.pack("<Q", len(text)) + text)


def test_json_nested_past_the_parser_is_refused(raw: tuple[socket.socket, Channel]) -> None:
    text = b"[" * 200_000
    sender = threading.Thread(target=raw[0].sendall, args=(struct.pack("<Q", len(text)) + text,))
    sender.start()
    with pytest.raises(ChannelError, match="not a message"):
        raw[1].receive(deadline=soon())
    sender.join()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"{",
        b"\xff\xfe",
        b'{"body": {}, "trees": {}}',
        b'{"body": [], "trees": {}, "tensors": []}',
        b'{"body": {}, "trees": [], "tensors": []}',
        b'{"body": {}, "trees": {}, "tensors": 5}',
        b'{"body": {}, "trees": {}, "tensors": {"dtype": 1}}',
        b'{"body": {"n": ' + b"9" * 5000 + b'}, "trees": {}, "tensors": []}',
    ],
    ids=lambda text: str(text[:40]),
)
def test_json_that_is_no_message_is_refused(
    raw: tuple[socket.socket, Channel], text: bytes
) -> None:
    error = refusal(raw, struct.pack("<Q", len(text)) + text)
    assert not isinstance(error, ChannelClosed)


class _Trap:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (self.path,)


def test_a_pickle_is_an_error_and_never_executed(
    raw: tuple[socket.socket, Channel], tmp_path: Path
) -> None:
    trap = tmp_path / "executed"
    payload = pickle.dumps(_Trap(str(trap)))
    pickle.loads(payload)  # the trap works
    trap.rmdir()
    refusal(raw, struct.pack("<Q", len(payload)) + payload)
    assert not trap.exists()


def test_text_that_looks_like_code_stays_text(ends: tuple[Channel, Channel]) -> None:
    code = "__import__('os').abort()"
    ends[0].send({"order": code}, {code: {code: 1}})
    message = ends[1].receive(deadline=soon())
    assert message.body == {"order": code}
    assert message.trees == {code: {code: 1}}


# --- memory of the sender's -----------------------------------------------------------------------


class Lent:
    """Stands in for a peer's memory mapped here, on a machine without a GPU."""

    def __init__(self) -> None:
        self.closed = 0

    def tensor(self, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.ones(shape, dtype=dtype)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[Lent]:
    """What was mapped; a handle that is empty cannot be."""
    mapped: list[Lent] = []

    def open_handle(handle: dict[str, Any], nbytes: int) -> Lent:
        if not handle:
            raise KeyError("handle")
        mapped.append(Lent())
        return mapped[-1]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("harness.shared.cuda_ipc.open_handle", open_handle)
    return mapped


SHARED = spec(device="cuda", ipc={"handle": "00" * 64, "offset": 0})


@pytest.mark.parametrize("shape", [[2], [0]], ids=str)
def test_memory_that_the_sender_can_still_write_to_is_taken_only_where_it_may_be(
    raw: tuple[socket.socket, Channel], lent: list[Lent], shape: list[int]
) -> None:
    data = header(tensors=[SHARED | {"shape": shape}], trees={"t": {"tensor": 0}})
    raw[0].sendall(data)
    message = raw[1].receive(deadline=soon(), shared=True)
    assert message.trees["t"].tolist() == shape[0] * [1.0]
    message.close()
    assert [one.closed for one in lent] == [1]
    assert "bytes were asked for" in str(refusal(raw, data))
    assert len(lent) == 1


@pytest.mark.parametrize(
    "rest",
    [
        {"trees": {"t": {"tensor": 7}}},
        {"tensors": [SHARED, SHARED | {"ipc": {}}]},
        {"tensors": [SHARED, spec()]},  # of which the bytes do not come
    ],
    ids=["no tree", "no handle", "no bytes"],
)
def test_what_was_mapped_for_a_message_that_is_none_is_given_back(
    raw: tuple[socket.socket, Channel], lent: list[Lent], rest: dict[str, Any]
) -> None:
    raw[0].sendall(header(**({"tensors": [SHARED]} | rest)))
    raw[0].shutdown(socket.SHUT_WR)
    with pytest.raises(ChannelError):
        raw[1].receive(deadline=soon(), shared=True)
    assert [one.closed for one in lent] == [1]


# --- a peer that stops ----------------------------------------------------------------------------


def test_a_stream_cut_short_is_closed(raw: tuple[socket.socket, Channel]) -> None:
    whole = header(tensors=[spec()]) + bytes(8)
    for length in (0, 3, 8, 20, len(whole) - 1):
        a, b = socket.socketpair()
        with a, b:
            a.sendall(whole[:length])
            a.shutdown(socket.SHUT_WR)
            with pytest.raises(ChannelClosed):
                Channel(b).receive(deadline=soon())


def test_a_closed_peer_is_closed_for_reading_and_writing(ends: tuple[Channel, Channel]) -> None:
    ends[1].close()
    with pytest.raises(ChannelClosed):
        ends[0].receive(deadline=soon())
    with pytest.raises(ChannelClosed):
        ends[0].send({"text": "x" * (1 << 20)})


@pytest.mark.parametrize("sent", [b"", b"\x05\x00", header()[:20], header(tensors=[spec()])])
def test_a_peer_that_stops_in_the_middle_meets_the_deadline(
    raw: tuple[socket.socket, Channel], sent: bytes
) -> None:
    raw[0].sendall(sent)
    with pytest.raises(ChannelTimeout):
        raw[1].receive(deadline=time.monotonic() + 0.05)


def test_the_deadline_is_for_the_message_not_for_each_byte(
    raw: tuple[socket.socket, Channel],
) -> None:
    stop = threading.Event()

    def drip() -> None:
        raw[0].sendall(struct.pack("<Q", 1 << 20))
        while not stop.wait(0.01):
            raw[0].sendall(b" ")

    sender = threading.Thread(target=drip)
    sender.start()
    with pytest.raises(ChannelTimeout):
        raw[1].receive(deadline=time.monotonic() + 0.3)
    stop.set()
    sender.join()


def test_a_descriptor_above_1023_is_waited_for() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))
    a, b = socket.socketpair()
    with a, b:
        high = socket.socket(fileno=fcntl.fcntl(b.fileno(), fcntl.F_DUPFD, 1500))
        channel = Channel(high)
        with pytest.raises(ChannelTimeout):
            channel.receive(deadline=time.monotonic() + 0.05)
        Channel(a).send({"there": 1})
        assert channel.receive(deadline=soon()).body == {"there": 1}
        channel.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
