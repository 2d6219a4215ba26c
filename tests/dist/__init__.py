"""What `make dist` does: build.py makes the source archive and the wheels, and trial.py uses one as a stranger would."""
