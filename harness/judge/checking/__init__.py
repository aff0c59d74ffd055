"""Right or wrong: what is tried on a solution, and how results are compared."""
