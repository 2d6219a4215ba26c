"""One module per family of operators. Each operator has a step function and a descriptor, which the engine finds in `table`."""
