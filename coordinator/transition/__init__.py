"""From one revision to the next while the pipeline runs: machine.py says what is due, without I/O, and transitions.py does it."""
