import torch
import torch.nn as nn


class Model(nn.Module):
    """Layers from a list of sizes."""

    def __init__(self, input_size, layer_sizes, output_size):
        super().__init__()
        sizes = [input_size, *layer_sizes]
        layers = []
        for i in range(len(layer_sizes)):
            layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
        self.network = nn.Sequential(*layers, nn.Linear(sizes[-1], output_size))

    def forward(self, x):
        return self.network(x)


# Test code
batch_size = 4
input_size = 10
layer_sizes = [12, 8]
output_size = 5


def get_inputs():
    return [torch.rand(batch_size, input_size)]


def get_init_inputs():
    return [input_size, layer_sizes, output_size]
