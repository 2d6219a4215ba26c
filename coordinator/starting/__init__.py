"""The start of a run: everything between its claim and its first step. Its stages, in order:

topics/refresh.py            a full refresh that was asked for, or that a run before has begun
project/in_force.py          the revision in force, as the step log and the topic of plan documents have it
topics/unwritten_switch.py   a switch whose step can never run is taken back
project/beginning.py         which project runs: with same_project.py, transition_found.py and release.py, which refuse others
topics/batch_tables.py       tables that are not loaded yet
topics/patterns.py           the topics of sources that name them by a pattern, and positions.py: where reading begins
topics/setup.py              topics as recorded, with same_topics.py and schemas.py; circuit.json (workers/circuit_file.py)
workers/bind_workers.py      tasks register, and become workers: binding.py decides, by what expected_databases.py, found_databases.py and
                             database_names.py say of databases; shrinking.py if there are too few task slots
workers/opening.py           the latest version of all workers is opened; usable_versions.py says from which one a run can go on

After a loss of workers a run repeats the last two stages. layouts.py has the layout of a new state, and how records and layouts belong together.

Guarantees: no database is touched before the claim is committed. State is used only with the project, the layout, the topics and the step log
that it was made with.
"""
