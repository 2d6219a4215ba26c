"""Revisions: what a project was when it was planned, and from one revision to the next."""
