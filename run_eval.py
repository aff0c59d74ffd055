"""Evaluate GPU kernels: `python run_eval.py --problem kl_div`. See `--help`."""

import sys

from harness.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
