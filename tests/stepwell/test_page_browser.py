"""The page in a real browser, headless Chromium: it runs its script, refreshes, and keeps to its security policy. Skipped without Chromium."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from stepwell.service.page.routes import PageRoutes
from tests.stepwell.test_page import EVIL, serving, whole_board

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS_MAX = 120.0
"""A start of the browser takes seconds beside other work."""

VIRTUAL_MS = 7000
"""The browser's own time, in which it waits for nothing: three looks of the page."""


def test_the_page_refreshes_itself_and_breaks_no_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    usual, looks = PageRoutes._sections, []

    def sections(self: PageRoutes) -> dict[str, str]:
        looks.append(1)
        return {**usual(self), **({} if len(looks) == 1 else {"lag": "<p>from a later look</p>"})}

    monkeypatch.setattr(PageRoutes, "_sections", sections)
    with serving(whole_board()) as endpoint:
        right = {"Authorization": f"Bearer {endpoint.token}"}
        path = httpx.post(endpoint.url + "/page/ticket", headers=right, trust_env=False).json()["path"]
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
        command += [
            f"--user-data-dir={tmp_path}",
            f"--virtual-time-budget={VIRTUAL_MS}",
            "--dump-dom",
            endpoint.url + path,
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    found = ended.stdout
    assert len(looks) > 1 and "from a later look" in found, "the script has replaced a section"
    assert "as of this moment" not in found and 'id="part-graph"' in found and "<svg" in found
    assert "CONSOLE" not in ended.stderr, ended.stderr
    assert EVIL not in found
