"""Z-sets as Arrow tables, and the hash that routes and groups their rows."""
