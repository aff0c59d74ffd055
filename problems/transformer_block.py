"""A small pre-norm transformer block with causal attention, and the gradients of everything.

    h = x + project(attention(qkv(norm(x))))
    output = h + down(gelu(up(norm(h))))                       shape (BATCH, LENGTH, FEATURES)

Hard: four products, attention, two norms, GELU and two residuals, each of which is a pass over the
memory if it is a kernel of its own. The products are most of the time; what a fused solution can
gain is the rest, and none of the tensors that backward needs should be kept twice.

Limit, at size `full`: 112 GFLOP forward, twice that backward, or 1.7 ms and 3.4 ms at 67 TFLOP/s of
float32. Bytes: 80 MiB forward (x, the output and 48 MiB of weights).
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
LENGTH = 1024
FEATURES = 1024
HEADS = 16

SIZES = {
    "smoke": {"BATCH": 2, "LENGTH": 64, "FEATURES": 128, "HEADS": 4},
    "odd": {"BATCH": 3, "LENGTH": 37, "FEATURES": 72, "HEADS": 3},
}


class Model(nn.Module):
    """RMS norm, attention, RMS norm, a two-layer perceptron; no biases.

    `project` starts small, so that of small tokens the second norm's epsilon shows too.
    """

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(features, eps=1e-5)
        self.qkv = nn.Linear(features, 3 * features, bias=False)
        self.project = nn.Linear(features, features, bias=False)
        self.mlp_norm = nn.RMSNorm(features, eps=1e-5)
        self.up = nn.Linear(features, 4 * features, bias=False)
        self.down = nn.Linear(4 * features, features, bias=False)
        for linear in (self.qkv, self.project, self.up, self.down):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
        nn.init.normal_(self.project.weight, std=0.05 * features**-0.5)
        for norm in (self.attention_norm, self.mlp_norm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, features = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(
            batch, length, 3, self.heads, features // self.heads
        )
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(heads.transpose(1, 2).reshape(batch, length, features))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (BATCH, LENGTH, FEATURES). Tokens are of sizes from 0.003 to 1: for the small
    ones the epsilon of the first norm shows."""
    return [torch.randn(BATCH, LENGTH, FEATURES) * log_uniform(0.003, 1.0, BATCH, LENGTH, 1)]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: features, heads."""
    return [FEATURES, HEADS]
