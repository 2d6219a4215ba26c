"""Damion's protocol (protocols/damion.py) over channels that a seed delays.

region.py       the shells of the machines, and the channels between them
world.py        one seed: which messages are sent, which channel goes on, which change comes
oracle.py       what must hold
uncorrected.py  the rules of the source document, which fail
"""
