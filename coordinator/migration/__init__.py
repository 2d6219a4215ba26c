"""Protocols that move the state of single keys between workers while records go on flowing: pure machines, without I/O, clock or randomness.

keys.py             sets of keys
assignment.py       which instance owns a key, and the change from one assignment to the next
damion_messages.py  what the machines of Damion's protocol tell each other and their shells
damion.py           Damion's protocol: a distributor knows which keys wait, and for whom
icadd_messages.py   what the machines of ICADD tell each other and their shells
icadd_operator.py   how an operator answers the region of its worker in ICADD
icadd.py            ICADD: the operators are asked for their keys, and no distributor knows all of them
"""
