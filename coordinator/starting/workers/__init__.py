"""The workers: which databases there are, who becomes which worker, and which version all of them open."""
