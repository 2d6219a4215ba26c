"""The state of workers in an object store: how a complete version is written there, and how a database is made of it again."""
