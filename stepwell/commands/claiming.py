"""How a command that writes the step log claims the pipeline, as a run does."""

from __future__ import annotations

import os
import socket

from coordinator.topic_names import log_topic_of, transactional_id_of
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.transactions import Claimant, FencedLog
from io_kafka.clients.writer import PipelineWriter
from stepwell.commands.common import note
from stepwell.commands.steps import read_log
from stepwell.project.loading import Project
from stepwell.service.holder import wait_until_claimable


def claim_pipeline(project: Project, above: int = -1) -> PipelineWriter:
    """The writer of a new epoch, which the caller closes. `above`: the epoch is higher than this one. Raises HeldByAnother, and faults of
    Kafka."""
    kafka, silence_s = KafkaSettings.parse(project.settings.kafka), project.settings.stepwell.takeover_silence
    claimable = wait_until_claimable(project.name, lambda: read_log(project), silence_s, take_over=False, say=note)
    writer = PipelineWriter(FencedLog(kafka, transactional_id_of(project.name), log_topic_of(project.name)))
    try:
        claimant = Claimant(project.name, socket.gethostname(), os.getpid())
        writer.log.start(claimant, expect_epoch=claimable, above=above)
    except BaseException:
        writer.log.close()
        raise
    return writer
