"""Definitions -> Catalyst's optimised plans -> the description that the coordinator runs."""
