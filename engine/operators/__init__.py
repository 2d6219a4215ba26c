"""One module per family of operators. Each has a step function and a descriptor; `table` is where the engine finds them."""
