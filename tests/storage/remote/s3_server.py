"""A real S3 server on this machine, S3Proxy with a folder behind it, as a child process.

Its jar, with all that it needs, comes from Maven Central like the broker's jars (io_kafka/broker/jars.py), and is kept beside them. If it cannot
be fetched, tests fail with a text that says so.
"""

from __future__ import annotations

import fcntl
import http.client
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from io_kafka.broker.folder_process import FolderProcess
from io_kafka.broker.jars import FETCH_SECONDS_MAX, cache_folder, ivy_command, java_command
from io_kafka.broker.ports import PORT_TRIES_MAX, free_port

VERSION = "2.6.0"
HOST = "127.0.0.1"
ACCESS_KEY, SECRET_KEY, BUCKET = "the-access-key", "the-secret-key", "bucket"

START_SECONDS_MAX = 120
"""A start takes 2 s on an idle machine, and many times that on a busy one."""

_MODULE = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="stepwell" module="s3-server"/>
  <configurations><conf name="runtime"/></configurations>
  <dependencies>
    <dependency org="org.gaul" name="s3proxy" rev="{VERSION}" conf="runtime->master" transitive="false">
      <artifact name="s3proxy" type="jar" ext="jar" m:classifier="jar-with-dependencies" conf="runtime"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


class S3Server:
    """The server of one folder. It has the bucket BUCKET, and knows one pair of keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = FolderProcess(folder, "s3")
        self.port = 0

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> S3Server:
        """Returns when the server answers. It ends with this process."""
        java = java_command()
        jar = s3proxy_jar()
        (self._folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        for _ in range(PORT_TRIES_MAX):
            self.port = free_port(HOST) or 0
            assert self.port, "no free port was found"
            self._write_properties()
            command = [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-jar", str(jar)]
            self._process.spawn([*command, "--properties", "s3.properties"], die_with_parent=True)
            if self._answers():
                return self
            self._process.reap()
        raise AssertionError(f"the S3 server ended at its start. {self._process.tail()}")

    def stop(self) -> None:
        self._process.end(signal.SIGKILL)

    def _write_properties(self) -> None:
        properties = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": ACCESS_KEY,
            "s3proxy.credential": SECRET_KEY,
            "s3proxy.ignore-unknown-headers": "true",  # as others do
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": "local",
            "jclouds.credential": "local",
            "jclouds.filesystem.basedir": str(self._folder / "data"),
        }
        (self._folder / "s3.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def _answers(self) -> bool:
        """Waits until the server answers; False if it ends, for example because another process has taken the port."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self._process.has_ended():
                return False
            connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
            try:
                connection.request("GET", "/")
                connection.getresponse().read()
                return True
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
            finally:
                connection.close()
        raise AssertionError(f"the S3 server gave no answer within {START_SECONDS_MAX} s. {self._process.tail()}")


def s3proxy_jar() -> Path:
    """The jar, which is fetched once. Raises AssertionError, which says how to get it."""
    folder = cache_folder().parent / f"s3proxy-{VERSION}"
    jar = folder / f"s3proxy-{VERSION}-jar-with-dependencies.jar"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            _fetch(jar)
    return jar


def _fetch(jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        command = ivy_command(Path(scratch), _MODULE)
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False)
        fetched = Path(scratch) / "jars" / jar.name
        assert done.returncode == 0 and fetched.exists(), (
            f"The S3 server of the tests, org.gaul:s3proxy:{VERSION}, could not be fetched from Maven Central (40 MB). Check the network, or "
            f"name a mirror in the Ivy settings file of STEPWELL_IVY_SETTINGS. Ivy said: {done.stdout[-1500:]}"
        )
        fetched.rename(jar)
