"""Modules that shadow the judge's are left in every folder that can be written.

expect: wrong_output
says: output
defence: isolated start, a private folder
"""

import os
from pathlib import Path

import torch

for name in ("sitecustomize", "usercustomize", "torch", "json"):
    Path(f"{name}.py").write_text("raise SystemExit('planted')")
os.environ["PYTHONPATH"] = os.getcwd()
os.environ["LD_PRELOAD"] = os.path.abspath("planted.so")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1)
