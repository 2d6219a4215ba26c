"""What a user can see of a project without running it: the description of `dry-run`, and queries over the state."""
