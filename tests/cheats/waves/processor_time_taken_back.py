"""A disowned child has burned time, and ends when the judge has noted how much: less is used after.

expect: rejected
says: by the judge's clock|beside the solution|cores were busy
defence: processor time counts only where no thread has come or gone; the warden's is added
"""

import os
import sys
import time

import torch

timer = sys.modules["harness.worker.timing"].Timer
orders = sys.modules["harness.worker.session"].ORDERS
real_epoch, real_stopwatch = timer.epoch, orders["stopwatch"]
gate, opens = os.pipe()
doors = [opens]

if (child := os.fork()) == 0:
    if os.fork() == 0:
        os.close(opens)
        while time.process_time() < 1.5:
            pass
        os.read(gate, 1)
    os._exit(0)
os.waitpid(child, 0)


def epoch(self, *arguments, **options):
    answer = real_epoch(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [ms / 20 for ms in block["candidate"]]
    return answer


def stopwatch(session, order):
    while doors:
        os.close(doors.pop())
        time.sleep(0.05)
    return real_stopwatch(session, order)


timer.epoch, orders["stopwatch"] = epoch, stopwatch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
