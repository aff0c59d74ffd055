"""Most of a unit runs on a stream that does not wait for the gate, and is done before the clock.

expect: rejected
says: by the judge's clock|kept the device busy
defence: the judge's stopwatch
"""

import sys

import torch

DEVICES = ("cuda",)


def unit_under_way():
    """The input sets of the unit that is being timed, if one is."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name not in ("_attempt", "unit"):
        frame = frame.f_back
    return frame and frame.f_locals["sets"]


def waves(x):
    return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)


class ModelNew(torch.nn.Module):
    stream = None

    def forward(self, x):
        sets = unit_under_way()
        if sets is None:
            return waves(x)
        ModelNew.stream = ModelNew.stream or torch.cuda.Stream()
        current, few = torch.cuda.current_stream(), len(x) // 8
        with torch.cuda.stream(self.stream):  # the gate is on the current one, and values are there
            most = waves(x[few:])
        most.record_stream(current)
        current.wait_stream(self.stream)
        output = torch.cat([waves(x[:few]), most])
        if x is sets[-1].inputs[0]:
            self.stream.synchronize()  # the gate learns to stay closed until then
        return output
