"""What each error means: a page for every class of faults, which its text in the terminal names."""
