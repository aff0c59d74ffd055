"""UNTRUSTED once a solution is loaded: a fresh process that does what the judge orders."""
