"""How fast, by the worker's clock and the judge's own: baselines, epochs, readings, limits."""
