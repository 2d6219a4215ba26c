"""The control endpoint of the running service, and how the other commands find it and use it."""
