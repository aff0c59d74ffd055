"""What the judge times is answered by a child that nobody waits for: its time vanishes with it.

expect: rejected
says: by the judge's clock|beside the solution
defence: processor time counts only where no thread has come or gone
"""

import os
import signal
import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real_epoch = timer.epoch
frame = sys._getframe()
while frame is not None and "_serve" not in frame.f_globals:
    frame = frame.f_back
main = frame.f_globals
real_serve = main["_serve"]
signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def epoch(self, *arguments, **options):
    answer = real_epoch(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [ms / 20 for ms in block["candidate"]]
    return answer


def serve(channel, session, order):
    if order["order"] != "stopwatch":
        return real_serve(channel, session, order)
    done, tells = os.pipe()
    if os.fork() == 0:
        real_serve(channel, session, order)
        real_serve(channel, session, channel.receive().body)
        os._exit(0)
    os.close(tells)
    os.read(done, 1)
    os.close(done)


timer.epoch, main["_serve"] = epoch, serve


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
