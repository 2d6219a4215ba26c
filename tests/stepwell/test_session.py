"""The session, in a process of its own: a test run has one already, with other settings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json
from stepwell.session import cores, make_session
session = make_session("t", {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.own": "7"}, daemon_module=None)
where = session.sparkContext.parallelize([0], 1).map(lambda _: __import__("stepwell").__path__[0]).collect()[0]
print(json.dumps({
    "zone": session.conf.get("spark.sql.session.timeZone"),
    "own": session.conf.get("spark.own"),
    "sockets": session.conf.get("spark.python.unix.domain.socket.enabled"),
    "bound": session.sparkContext.master == f"local[{cores()}]",
    "where": where,
}))
session.stop()
"""


def test_a_session_is_in_utc_quiet_and_its_workers_find_our_packages(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{SCRIPT}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert json.loads(run.stdout) == {
        "zone": "UTC", "own": "7", "sockets": "true", "bound": True, "where": str(root / "stepwell"),
    }  # fmt: skip
    assert "WARN " not in run.stderr
    assert "log level" not in run.stderr
