"""The command line beyond `cli`: options, what is shown, and every command beside evaluating."""
