"""An operation of the reference's is registered anew, and cheap: both sides agree.

expect: wrong_output
says: output
defence: the reference is computed in the judge
"""

import torch

library = torch.library.Library("aten", "IMPL")
library.impl("tanh", lambda x: x.clone(), "CPU")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
