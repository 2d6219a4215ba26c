"""The checkpoint store as the coordinator sees it: which version is uploaded (machine.py), how (storing.py), what says where its state is
(manifest.py), what no version needs any more (collecting.py), what users keep (backups.py), and how a start gets it back (restoring.py)."""
