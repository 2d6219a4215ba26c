"""The topics of the project that runs: whether they are those of the state, what is loaded into them, and where reading begins."""
