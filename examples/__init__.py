"""Projects to look at and to run."""
