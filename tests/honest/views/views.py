"""Views, as the reference returns, in a dict of another order.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return {2: [x.narrow(1, 1, x.shape[1] - 1), x.reshape(-1)[:7]], "turned": x.permute(1, 0)}
