"""The benchmark: `make bench`. It measures the service as users run it, and its peers, on one broker with one input."""
