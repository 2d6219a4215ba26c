"""What follows from a circuit alone: stages and exchanges, keys, retractions, how the content of a view is read."""
