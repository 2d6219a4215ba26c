"""Storage: one two-version database a worker, on LMDB. `database.Database` is the door; see there for the picture."""
