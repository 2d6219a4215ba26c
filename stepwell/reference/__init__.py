"""Pages of docs/ that are made from the code: settings and commands. Those of metrics and errors are made beside their tables."""
