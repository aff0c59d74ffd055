"""Evaluation harness for GPU kernels: right, honest, repeatable, fast.

`python run_eval.py --help` is the command line; `harness.evaluate` is the same from Python.
"""

__version__ = "0.1.0"
