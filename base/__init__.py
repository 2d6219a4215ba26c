"""Values and rules that every room may use. They are pure: no I/O, clock or randomness, and no imports from other rooms."""
