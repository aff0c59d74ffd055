"""The message of an error would clear the terminal and write `pass` there.

expect: runtime_error
says: \\\\x1b\\[2J
defence: messages are shown as text
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        raise ValueError("\x1b[2J\x1b[32mpass")
