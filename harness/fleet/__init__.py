"""Many judges at once, on several devices of one machine or on a cluster."""
