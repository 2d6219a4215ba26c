"""Analyses of a circuit: stages and exchanges, unique keys, retractions, and how the content of a view is read."""
