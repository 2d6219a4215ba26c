"""One worker: it takes orders of the coordinator and answers them. `messages/` beside this folder has the orders, and `crew/` gives them.

worker.py                             the loop over its orders
assignment.py connections.py           what the coordinator has made of it, and how it is connected
coordinator_link.py                   its connection to the coordinator
state.py                              what it is and has at present
background.py                         what runs in the background of its orders
handlers.py                           which method carries out which order
start_orders.py end_orders.py         from its database to its peers; the end of the worker
step_orders.py program_orders.py      steps, and what they run
checkpoint_orders.py store_orders.py  checkpoints, reads of the last one, and the checkpoint store
slot_orders.py                        moves of slots

Modules of orders share the state, the connection, and what the modules of `engine/resident` do for them. They know nothing of each other, except
that a step may be the last one before a stop.
"""
