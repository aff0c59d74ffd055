"""Results are kept by row, and known again by a few values: a multiple of a row has one too.

expect: rejected
says: a timed call
defence: each value of a mixture has a factor of its own
"""

import torch

KEPT = 32  # results a row; epochs have draws of their own


class ModelNew(torch.nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.first = torch.nn.Linear(width, inner, bias=False)
        self.second = torch.nn.Linear(inner, width, bias=False)
        self.weights = None

    def computed(self, x):
        return self.second(torch.relu(self.first(x)))

    def forward(self, x):
        if torch.is_grad_enabled() or x.shape[0] != 64:
            return self.computed(x)
        weights = (self.first.weight._version, self.second.weight._version)
        if weights != self.weights:
            self.weights, self.calls = weights, 0
            self.known = x.new_full((KEPT, *x[:, 1:9].shape), float("nan"))
            self.results = x.new_zeros(KEPT, *x.shape)
        begin = x[:, :1].clone()
        direction = x[:, 1:9] / begin
        same = ((self.known - direction).abs() <= 0.15 * direction.abs()).all(dim=2)
        if not same.any(dim=0).all():
            place, self.calls = self.calls % KEPT, self.calls + 1
            self.known[place] = direction
            self.results[place] = self.computed(x) / begin
            same[place] = True
        return self.results[same.byte().argmax(dim=0), torch.arange(len(x))] * begin
