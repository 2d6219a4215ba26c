"""A rescale: the pipeline goes from one layout to another, which has other workers or gives slots to other ones.

actions.py     what the machine asks the shell for
phases.py      the phases of the machine, and the events that lead from one to the next
machine.py     the machine, as the core asks it
ways.py        which slots have to go from where to where
planner.py     what a protocol is asked that decides which slots move together
"""
