"""Timed calls do nothing; what the judge asks for is computed then, stopwatch and all.

expect: rejected
says: by the judge's clock|beside the solution|nothing was met before
defence: the judge's stopwatch
"""

import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real = timer.epoch


def epoch(self, *arguments, **options):
    ModelNew.idle = True
    try:
        answer = real(self, *arguments, **options)
    finally:
        ModelNew.idle = False
    session = sys.modules["harness.worker.session"]
    session.ORDERS["reveal"] = reveal
    return answer


def reveal(session, order):
    timer = session.timer
    draws = sys.modules["harness.shared.draws"]
    pool = timer.pool
    number = timer.mix_seed + order["unit"]
    chosen = sys.modules["harness.shared.mixing"].mixes(
        number, pool.seeds, len(timer.sets), mix=timer.mix
    )
    first, mix = chosen[order["call"]]
    draw = draws.Draw(seed=pool.seeds[first], mix=mix)
    return {}, {"output": waves(session.instance.inputs(draw)[0])}


timer.epoch = epoch


def waves(x):
    return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)


class ModelNew(torch.nn.Module):
    idle = False

    def forward(self, x):
        return x[:, 0].clone() if ModelNew.idle else waves(x)
