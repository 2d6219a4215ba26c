"""The quota of a control group, and the folders of a user whom the machine does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from base import user_folders
from base.cpu_quota import cpu_quota


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ("0::/a/b\n", {"a/b/cpu.max": "50000 100000", "a/cpu.max": "200000 100000"}, 0.5),
        ("0::/as/the/machine/sees/it\n", {"cpu.max": "300000 100000"}, 3.0),
        (
            "4:cpu,cpuacct:/x\n2:memory:/y\n",
            {"cpu/x/cpu.cfs_quota_us": "400000", "cpu/x/cpu.cfs_period_us": "100000"},
            4.0,
        ),
        (
            "4:cpu,cpuacct:/x\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "400000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            4.0,
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("0::/\n", {"cpu.max": "nonsense"}, None),
        ("0::/\n", {}, None),
        (None, {}, None),
    ],
)
def test_the_quota_is_the_least_of_all_groups(
    tmp_path: Path, own: str | None, files: dict[str, str], quota: float | None
) -> None:
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if own is not None:
        (tmp_path / "own").write_text(own)
    assert cpu_quota(tmp_path / "groups", tmp_path / "own") == quota


def test_the_cache_is_where_it_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(user_folders.CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_folders.cache_root() == tmp_path / ".cache"
    monkeypatch.setenv("HOME", str(tmp_path / "not there"))
    assert user_folders.home() is None
    assert user_folders.cache_root() == user_folders.own_scratch()
    monkeypatch.delenv("HOME")

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert user_folders.user_name() is None and user_folders.cache_root() == user_folders.own_scratch()
    monkeypatch.setenv(user_folders.CACHE_VARIABLE, "/named")
    assert user_folders.cache_root() == Path("/named")
