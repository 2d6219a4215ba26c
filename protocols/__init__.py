"""Protocols that move the state of single keys between workers while records go on flowing: pure machines, without I/O, clock or
randomness.

Stepwell moves batches of slots at drained boundaries, where no record is under way, and needs none of them. They are here to be compared
with that. Nothing imports this room but the command that runs a pipeline, which lets a rescale go by a protocol if somebody asks for it.

keys.py             sets of keys
assignment.py       which instance owns a key, and the way from one assignment to the next
damion_messages.py  what the machines of Damion's protocol tell each other and their shells
damion.py           Damion's protocol: a distributor knows which keys wait, and for whom
icadd_messages.py   what the machines of ICADD tell each other and their shells
icadd_operator.py   how an operator answers the region of its worker in ICADD
icadd.py            ICADD: the operators are asked for their keys, and no distributor knows all of them

A **planner** drives the machines of a protocol between the steps of a pipeline. To it a slot is a key. At the boundary of a step no record
is under way, so the machines get no records, and their channels live in this process. What is left of a message with state is a **move**:
the engine carries it out as a cut, and only then the message arrives. A **round** is what the machines do at one boundary. It ends when
nothing can go on but by the next round's word, and then no key is held, so a step may begin: every worker has the slots that the machines
say.

move.py             a move
damion_planner.py   drives Damion's protocol
icadd_planner.py    drives ICADD
planners.py         both, by their names
"""
