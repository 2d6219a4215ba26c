"""Which project a run begins with: the one that the step log has in force, that of the files, or the next one."""
