"""Z-sets as Arrow tables, and the hash by which their rows are routed and grouped."""

from base.pandas_later import leave_pandas_out

leave_pandas_out()  # before any module makes an array
