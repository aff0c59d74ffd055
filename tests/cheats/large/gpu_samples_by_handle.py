"""Times are forged; the samples go as handles, and are written when the judge's clock has stopped.

expect: rejected
says: shared memory
defence: samples are asked for as bytes
"""

import functools
import sys

import torch

DEVICES = ("cuda",)
timer = sys.modules["harness.worker.timing"].Timer
encoding = sys.modules["harness.shared.encoding"]
mixing = sys.modules["harness.shared.mixing"]
trees = sys.modules["harness.shared.trees"]
real_epoch, real_samples, real_specify = timer.epoch, timer.samples, encoding.specify
shared = []


def epoch(self, *arguments, **options):
    answer = real_epoch(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [ms / 4 for ms in block["candidate"]]
    return answer


def samples(self, seed):
    answer = real_samples(self, seed)
    shared.extend(tensor for _, tensor in trees.walk_tensors(answer, ""))
    return answer


@functools.cache
def places(count, seed, device):
    """Where samples are taken, without waiting for the device."""
    source = torch.Generator().manual_seed(seed)
    chosen = torch.randint(count, (mixing.SAMPLES,), generator=source)
    return chosen.pin_memory().to(device, non_blocking=True)


def specify(tensor, *, ipc):
    """A handle of samples that the device has yet to write."""
    if all(tensor.data_ptr() != other.data_ptr() for other in shared):
        return real_specify(tensor, ipc=ipc)
    spec, _ = real_specify(tensor.new_empty(0), ipc=False)
    return spec | {"shape": list(tensor.shape), "ipc": encoding.cuda_ipc.export(tensor)}, None


timer.epoch, timer.samples = epoch, samples
mixing._places, encoding.specify = places, specify


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
