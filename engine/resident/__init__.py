"""Workers that live as long as a run: each is a Spark task, and the coordinator drives it over a connection.

messages/ frames.py                            what travels: classes of small typed messages, and raw Arrow buffers
transport.py sockets.py                        connections, and one call that waits for what arrives on any of them
tls.py certificates.py tokens.py strangers.py  the certificate of a run, and connections that have not shown its token yet
worker/                                        a worker: the loop over its orders, what it has, and what carries out each order
programs.py readers.py states.py               what it knows of programs, its readers of Kafka, and which step it runs next
mesh.py received.py                            the exchange with its peers; rows of another process, which may be nonsense
copies.py slots.py folds.py                    what a worker does in a copy, in a cut and in a fold
registration.py                                from a stranger to a candidate
crew/ roster.py                                the coordinator's side: orders by purpose, and connections by worker
liveness.py pulse.py progress.py               which worker counts as silent, stalled or stuck, and the signs of life that say so
entry.py launcher.py spark_launcher.py daemon.py preload.py   how a Spark task becomes a worker
companions.py companion_process.py             processes that stand in for task slots that are lost
storing.py                                     what a worker does for the checkpoint store

No thread exists only to move bytes: whoever waits for a message also sends what is queued, so two workers that send to each other cannot block
each other.
"""
