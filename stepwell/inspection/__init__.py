"""What a user sees of a project without running it: the description of `dry-run`, and queries over the state."""
