"""The router of a mixture of experts: the largest K of each row, a softmax over them, and where.

    values, indices = topk(logits, K)
    output = (softmax(values), indices)                      each (TOKENS, K); indices are int64

Hard: a row of 256 is too short to sort with a block and too long for a thread. Largest first, so
the K are sorted; indices are exact or wrong. Backward scatters K numbers into a row of zeros: all
of the gradient is written, and hardly anything read. Eager PyTorch sorts every row.

Limit, at size `full` in float32 (the logits are 128 MiB):
    forward    reads the logits, writes 12 MiB                        0.14 GiB
    backward   reads 12 MiB, writes the gradient                      0.14 GiB
The limit that is reported counts all logits as read in backward, too: gradients depend on some.
"""

import torch
import torch.nn as nn

TOKENS = 131072
EXPERTS = 256
K = 8

SIZES = {
    "smoke": {"TOKENS": 1024},
    "odd": {"TOKENS": 509, "EXPERTS": 131, "K": 5},
}

#: Of equal values any may come first, so there are none: see get_inputs. Other factors, rounded
#: to 16 bits, would make some.
VARIATIONS = ("as_given",)


class Model(nn.Module):
    """`torch.topk` along the last dimension, its values through softmax."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = torch.topk(logits, self.k, dim=-1)
        return torch.softmax(values, dim=-1), indices


def get_inputs() -> list[torch.Tensor]:
    """(logits,), shape (TOKENS, EXPERTS): in each row different whole numbers of [-256, 256],
    times a power of two of its own. All are exact in bfloat16 and float16 as well."""
    order = torch.rand(TOKENS, 513).argsort(dim=-1)[:, :EXPERTS]
    logits = order.sub_(256).to(torch.float32)
    logits *= 2.0 ** -torch.randint(2, 6, (TOKENS, 1))
    return [logits]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: k."""
    return [K]
