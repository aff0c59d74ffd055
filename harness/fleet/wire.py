"""JSON lines between processes of ours that trust each other: a judge, and whoever gave it work.

Without torch, so that who only passes work on starts at once. Not for a worker's answers, which
are claims: channel.py.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from typing import Any

CHUNK_BYTES = 1 << 16


class WireClosed(Exception):
    """The other side is gone."""


class WireTimeout(Exception):
    """The other side said nothing by the deadline."""


class Wire:
    """One end of a connected stream socket. Any thread may send; one at a time receives."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._sending = threading.Lock()
        self._unread = b""

    def send(self, message: dict[str, Any]) -> None:
        """Raises `WireClosed`."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._sending:
                self._socket.sendall(line)
        except OSError as error:
            raise WireClosed("the other side is gone") from error

    def receive(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The next message. Raises `WireClosed`, or `WireTimeout` after `timeout_s` seconds."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        pieces = [self._unread]
        while b"\n" not in pieces[-1]:
            pieces.append(self._more(deadline))
        line, _, self._unread = b"".join(pieces).partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _more(self, deadline: float | None) -> bytes:
        try:
            poll = select.poll()  # select() refuses descriptors above 1023
            poll.register(self._socket, select.POLLIN)
            left = None if deadline is None else 1e3 * max(0.0, deadline - time.monotonic())
            if not poll.poll(left):
                raise WireTimeout("nothing was said by the deadline")
            data = self._socket.recv(CHUNK_BYTES)
        except (OSError, ValueError) as error:  # ValueError: closed by another thread
            raise WireClosed("the other side is gone") from error
        if not data:
            raise WireClosed("the other side is gone")
        return data

    def close(self) -> None:
        """Also wakes a thread that waits in `receive`; idempotent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
