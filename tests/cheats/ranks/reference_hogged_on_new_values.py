"""An order is kept; on new values a thread keeps the interpreter from the reference as well.

expect: rejected
says: nothing was met before|the reference took
defence: what excuses a solution on new values is bounded
"""

import sys
import threading
import time

import torch

HOGGED_S = 0.02


def is_last_on_new_values(keys):
    """Whether this is the last call of the unit on new values."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "unseen":
        frame = frame.f_back
    known = frame.f_locals if frame is not None else {}
    return "took_ms" in known and known["self"].sets[-1].inputs[0] is keys


def hog():
    time.sleep(5e-4)  # until the call is over
    until = time.perf_counter() + HOGGED_S
    while time.perf_counter() < until:
        pass


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, keys, values):
        some = tuple(keys[:: len(keys) // 8].tolist())
        if some not in self.known:
            self.known[some] = keys.argsort(stable=True)
        output = values[self.known[some]].cumsum(0)
        if is_last_on_new_values(keys):
            threading.Thread(target=hog).start()
        return output
