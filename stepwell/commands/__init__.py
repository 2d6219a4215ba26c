"""The commands, a module each; `stepwell/cli.py` puts them together."""
