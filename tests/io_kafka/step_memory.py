"""Reads a topic step by step in a process of its own, and reports the memory that this took. For test_memory.py.

python -m tests.io_kafka.step_memory SERVERS TOPIC STEP_BYTES_MAX      last line of output: {"messages", "steps", "base_mb", "peak_mb"}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.errors import StepTooLarge
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.division import StepLimits, divide

ROWS_MAX = 320_000
RESETS_THE_PEAK = "5"


def memory_mb(name: str) -> int:
    """`name`: VmRSS, what is resident; VmHWM, the most that was."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) >> 10


def main(servers: str, topic: str, bytes_max: int) -> None:
    settings = KafkaSettings.parse({"bootstrap.servers": servers})
    reader, topics = RangeReader(settings), Topics(settings)
    ends = topics.end_offsets([topic])
    at = dict.fromkeys(ends, 0)
    reader.read([OffsetRange(*where, 0, 1) for where in ends])  # the memory of clients and libraries themselves
    reader.close()
    base = memory_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text(RESETS_THE_PEAK)
    steps = messages = 0
    while (division := divide(steps, at, ends, StepLimits(ROWS_MAX, bytes_max))) is not None:
        spans = list(division.ranges)
        try:
            batches = reader.read(spans, bytes_max=bytes_max, ahead=True)
        except StepTooLarge as fault:
            spans = [OffsetRange(s.topic, s.partition, s.start, fault.ends.get(s.where, s.end)) for s in spans]
            batches = reader.read(spans, bytes_max=bytes_max, ahead=True)
        messages += sum(batch.messages.length for batch in batches)
        steps += 1
        at.update({span.where: span.end for span in spans})
        del batches
    reader.close()
    print(json.dumps({"messages": messages, "steps": steps, "base_mb": base, "peak_mb": memory_mb("VmHWM")}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
