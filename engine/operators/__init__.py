"""One module a kind of operator; `table` is where the engine finds them. A new operator is a module and a line there."""
