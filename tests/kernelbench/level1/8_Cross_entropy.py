import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Integer targets and a scalar output."""

    def forward(self, predictions, targets):
        return F.cross_entropy(predictions, targets)


batch_size = 16
num_classes = 10
input_shape = (num_classes,)


def get_inputs():
    return [torch.randn(batch_size, *input_shape), torch.randint(0, num_classes, (batch_size,))]


def get_init_inputs():
    return []
