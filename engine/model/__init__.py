"""The circuit as plain data, and which worker owns which rows."""
