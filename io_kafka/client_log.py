"""The log of librdkafka, by a name that is known without loading it."""

from __future__ import annotations

import logging

CLIENT_LOG = logging.getLogger("io_kafka.librdkafka")
"""It is silent unless logging is configured, because the exceptions of this package have the reason."""

CLIENT_LOG.addHandler(logging.NullHandler())
