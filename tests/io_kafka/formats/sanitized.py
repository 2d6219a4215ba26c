"""A plugin of pytest: the extension `_json` is the one that SANITIZED_JSON names, which was built with checks of memory (test_sanitized.py)."""

from __future__ import annotations

import importlib.util
import os
import sys

NAME = "io_kafka.formats._json"

spec = importlib.util.spec_from_file_location(NAME, os.environ["SANITIZED_JSON"])
assert spec is not None and spec.loader is not None
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules[NAME] = module  # before the first import of the reader
