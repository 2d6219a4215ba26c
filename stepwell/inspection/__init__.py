"""What a user can see of a project without running it (`dry-run`, `plan`, `layout`, `revision`), and queries over the state."""
