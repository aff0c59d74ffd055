"""At import the inputs of the usual seeds are drawn, and answered then.

expect: wrong_output
says: output
defence: secret seeds
"""

import torch

answers = []
for seed in (0, 1, 42, 1234):
    torch.manual_seed(seed)
    x = torch.randn(64, 1024)
    answers.append(torch.tanh(torch.exp(torch.sin(x))).mean(dim=1))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return answers[2] + 0 * x.sum()
