"""The head of a language model: a linear layer onto the vocabulary, then cross entropy.

    logits = hidden @ weight.T + bias                                   shape (TOKENS, WORDS)
    output = mean(log(sum(exp(logits))) - logits[target])               shape []

Hard: the logits are 0.8 GB which the loss, one number, does not need to have in memory: they can be
made and summed tile by tile, and made again for backward, or their gradient kept in their place.
Eager PyTorch holds logits, log-softmax and gradient: 2.5 GB. A question of memory before speed.

Limit, at size `full`: 422 GFLOP forward, 844 GFLOP backward (without making the logits again), or
6.3 ms and 12.6 ms at 67 TFLOP/s of float32. Bytes: 0.22 GB forward; training holds 0.45 GB.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 4096
FEATURES = 1024
WORDS = 50304

SIZES = {
    "smoke": {"TOKENS": 128, "FEATURES": 64, "WORDS": 1024},
    "odd": {"TOKENS": 127, "FEATURES": 67, "WORDS": 1031},
}


class Model(nn.Module):
    """`nn.Linear`, whose bias falls with the rank of a word as its frequency does, then
    `cross_entropy`."""

    def __init__(self, features: int, words: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, words)
        nn.init.normal_(self.linear.weight, std=features**-0.5)
        with torch.no_grad():
            self.linear.bias.copy_(-torch.log1p(torch.arange(words, dtype=torch.float32)))

    def forward(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.linear(hidden), targets)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(hidden, targets): (TOKENS, FEATURES), and (TOKENS,) of int64.

    How common the targets are differs from draw to draw, and by the bias the loss with it: those
    of another draw do not serve. Later tokens have longer vectors, so half do not stand for all.
    """
    hidden = torch.randn(TOKENS, FEATURES)
    hidden *= log_uniform(0.5, 2.0) * torch.linspace(0.3, 2.0, TOKENS)[:, None]
    rank = float(WORDS) ** (torch.rand(TOKENS) ** log_uniform(0.3, 3.0))
    return [hidden, rank.long().sub_(1).clamp_(0, WORDS - 1)]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: features, words."""
    return [FEATURES, WORDS]
