"""Stepwell chooses the number of workers between two bounds, from the load that it measures.

load.py        what is measured: samples of the load
sampling.py    how the loop's steps become samples
step_costs.py  what a step costs, as a function of its rows
capacities.py  how many rows a second each number of workers manages: what was learnt, and what is expected of the others
knowledge.py   all that is remembered of the samples
phases.py      where the machine is: off, watching, asking, changing, cooling down
choice.py      which number of workers the knowledge speaks for, and why
machine.py     the machine: samples in, decisions out
reasons.py     the reasons in words
replay.py      what the machine would have decided over a recorded load
load_file.py   the file of the recorded load
requests.py    what users ask of all this
autoscaling.py the shell: samples, asks for rescales as a user does, and says why
automatic_shown.py what users see of it

All but load_file.py and autoscaling.py is without I/O, clock or randomness."""
