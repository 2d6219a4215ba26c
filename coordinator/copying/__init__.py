"""A new pipeline that begins with the state of another one: what is copied (source.py, moment.py), what its step log begins with (state.py), the
order of it all (making.py), and the copies of the objects in the checkpoint store (objects.py) and of the rows of batch tables (tables.py)."""
