"""A worker: receive an order, do it, answer. Started by the judge's sandbox with one open socket.

Every exception of the solution becomes an answer here; what kills the process outright is
the judge's to see.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
from typing import Any

from harness.shared.channel import Channel, ChannelClosed
from harness.worker.faults import describe
from harness.worker.session import ORDERS, Session, begin

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(descriptor: int) -> None:
    """Serve orders on the socket `descriptor` until the judge closes it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # never outlive the judge
    logging.getLogger("torch").setLevel(logging.ERROR)
    channel = Channel(socket.socket(fileno=descriptor))
    first = channel.receive().body
    session = begin(first)
    channel.send({"nonce": first["nonce"], "answer": {"pid": os.getpid()}})
    while True:
        try:
            order = channel.receive().body
        except ChannelClosed:
            return
        _serve(channel, session, order)


def _serve(channel: Channel, session: Session, order: dict[str, Any]) -> None:
    """Do one order and answer it. Nothing of it is held on to while the next is done."""
    try:
        answer, trees = ORDERS[order["order"]](session, order)
        session.remember(order)
        channel.send({"nonce": order["nonce"], "answer": answer}, trees, ipc=order["ipc"])
    except BaseException as error:  # noqa: BLE001 - whatever a solution raises is an answer
        fault = describe(error, file=session.file) | {"builds": session.order.get("builds", [])}
        channel.send({"nonce": order["nonce"], "fault": fault})


if __name__ == "__main__":
    main(int(sys.argv[1]))
