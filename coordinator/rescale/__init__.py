"""A rescale: the pipeline goes from one layout to another, which has other workers or gives slots to other ones.

actions.py      what the machine asks the shell for
phases.py       the phases of the machine, and the events that lead from one to the next
machine.py      the machine, as the core asks it
slot_moves.py   which slots have to go from where to where
planner.py      what a protocol is asked that decides which slots move together
rescaling.py    the shell of the machine: what is done at boundaries
beside_steps.py what waits for no boundary, with recruiting.py (tasks), hosts.py and disk_space.py (disks), slot_copies.py (copies)
cut_budget.py   how much one cut may move
wishes.py       what users and a start want (requests.py), and what is done about it
forecast.py     about how long a rescale takes
replacing.py    a rescale that frees a host
rescale_shown.py a rescale as users see it, with progress.py; layout_shown.py is its JSON
parts.py        what the parts of the shell share
"""
