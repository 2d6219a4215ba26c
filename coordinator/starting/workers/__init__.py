"""The workers: which databases there are, which candidate becomes which worker, and which version all of them open."""
