"""TRUSTED: owns seeds, reference results, the auditing clock and the verdict."""
