"""Whether a problem is fit to judge by: mutants of its reference."""
