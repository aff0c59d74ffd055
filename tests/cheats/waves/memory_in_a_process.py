"""Memory is held by a child process, at import.

expect: pass
flags: memory_outside
peak: 256
defence: the judge looks at the processes' memory from outside
memory: measured
"""

import subprocess
import sys

import torch

CODE = "import time; held = bytearray(b'x') * (256 << 20); print(flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE)
child.stdout.readline()


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
