"""Z-sets as Arrow tables, and the hash by which their rows are routed and grouped."""
