"""Analyses of a circuit: stages and exchanges, unique keys, retractions, and how the content of a view is read. And of two circuits: what the
second one keeps of the first, and the circuits that fill the rest."""
