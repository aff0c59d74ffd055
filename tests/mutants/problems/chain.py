"""Steps that each keep something for the backward: what goes without is written in place."""

import torch

ROWS = 64
COLUMNS = 1024
STEPS = 6


class Model(torch.nn.Module):
    def forward(self, x):
        for _ in range(STEPS):
            x = torch.relu(1.5 * x - 0.25)
        return x.mean(dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
