"""From a claim to open databases: what a start checks, records and makes, and what it does about state that it finds."""
