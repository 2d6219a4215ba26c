"""The whole of a pipeline in a world of dice: see ARCHITECTURE.md, "The simulator".

world.py       one seed: what befalls whom          weather.py, producers.py
scheduler.py   who goes on at each point
broker.py      logs and transactions                clients.py
disk.py        synced and unsynced writes, lost disks   environments.py
object_store.py   a checkpoint store with faults    oracle_of_store.py
network.py     connections between processes        launcher.py
circuit.py     what the operators compute
seams.py       where they take the place of the real ones
oracle.py      what must hold                  oracle_of_steps.py, oracle_of_layouts.py, oracle_of_revisions.py, oracle_of_databases.py
seeds.py       many seeds                           story.py, __main__.py, sabotage.py
"""
