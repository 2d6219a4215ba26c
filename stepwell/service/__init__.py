"""The running service's control endpoint, and how the other commands find and ask it."""
