"""The commands, one module per command. `stepwell/cli.py` puts them together."""
