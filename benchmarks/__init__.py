"""Measurements behind the harness's constants and claims. Run as `python -m benchmarks.NAME`."""
