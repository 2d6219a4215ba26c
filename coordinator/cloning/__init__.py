"""A new pipeline that begins with the state of another one: what is copied (source.py, log_at_version.py), what its step log begins with
(state.py), the order of it all (clone.py), and the copies of the objects in the checkpoint store (objects.py) and of the rows of batch tables
(tables.py)."""
