"""Views of the input: where the reference copies nothing, a solution need not either."""

import torch

ROWS = 31
COLUMNS = 43


class Model(torch.nn.Module):
    def forward(self, x):
        return {"turned": x.t(), 2: [x[:, 1:], x.reshape(-1)[:7]]}


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
