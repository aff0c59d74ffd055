"""The code object of the meter is swapped in place: identity checks see nothing.

expect: rejected
says: by the judge's clock|beside the solution
defence: the judge's stopwatch
"""

import sys

import torch

meters = sys.modules["harness.worker.meters"]
real = type(meters.CpuMeter.unit)(meters.CpuMeter.unit.__code__, vars(meters))


def unit(self, side, mode, sets):
    import types

    found = self.real(side, mode, sets)
    return types.SimpleNamespace(
        ms=found.ms / (5 if side.name == "candidate" else 1),
        outputs=found.outputs,
        late_ms=found.late_ms,
    )


meters.CpuMeter.real = real
meters.CpuMeter.unit.__code__ = unit.__code__


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
