"""The circuit as plain data, and the placement: which worker owns which rows."""
