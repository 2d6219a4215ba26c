"""The protocol ICADD among workers whose channels are delayed at will.

shell.py        the channels, the states, and the obedience to instructions
world.py        one seed: the delays, the records, and changes of the number of workers
oracle.py       what must hold of every record and every state; it knows nothing of the protocol
uncorrected.py  the rules of the source document, and others that are broken in one place
"""
