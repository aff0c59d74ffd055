"""What judge and worker both need: problems, values of seeds, trials, the wire between them."""
