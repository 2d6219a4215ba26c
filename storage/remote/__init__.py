"""The checkpoint store: how a complete version of a worker is written to an object store, and how a database is made of it again."""
