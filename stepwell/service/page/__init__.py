"""The read-only page of a service: what its pipeline does, in a browser. docs/decisions/0124 says why it is made without a library."""
