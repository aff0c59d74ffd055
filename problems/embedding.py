"""Rows of a table by integer tokens; its gradient is a scatter-add into the table.

    output[i] = weight[tokens[i]]                                    shape (TOKENS, FEATURES)
    d output / d weight [w] = sum of grad_output[i] over i with tokens[i] == w

Hard: backward. Tokens are spread as in text: one in sixteen is the commonest word, so thousands of
rows go to one, while most rows of the table get none and must be zeros. Atomics queue up at the
common rows and add in an order that varies; sorting first costs several passes over the tokens.

Limit, at size `full` in float32 (the table is 197 MiB, the output 128 MiB):
    forward    reads the rows that occur, writes the output           0.17 GiB
    backward   reads grad_output, writes the gradient of the table    0.32 GiB
"""

import torch
import torch.nn as nn

WORDS = 50304
FEATURES = 1024
TOKENS = 32768

SIZES = {
    "smoke": {"WORDS": 1024, "FEATURES": 64, "TOKENS": 1024},
    "odd": {"WORDS": 1031, "FEATURES": 67, "TOKENS": 2049},
}


class Model(nn.Module):
    """`nn.Embedding`."""

    def __init__(self, words: int, features: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, features)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.embedding(tokens)


def get_inputs() -> list[torch.Tensor]:
    """(tokens,), shape (TOKENS,), int64: the frequency of a word falls as 1 / rank (Zipf)."""
    return [(float(WORDS) ** torch.rand(TOKENS)).long() - 1]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: words, features."""
    return [WORDS, FEATURES]
