"""Storage: the two-version database of each worker, on LMDB. `database.py` has the interface and a diagram of the
layers."""
