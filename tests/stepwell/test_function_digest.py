"""The digest of a function: the same for what does the same, and another one for every change of what it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.planning.function_digest import NoDigest, digest_of

FILE = """
import collections
import defaults
import dataclasses
import inside
import re

import helpers
import passed
from helpers import cached, twice

INSIDE = {"inside": inside}
RATES = {"a": 1.5, "b": 2.0}
SEEN = frozenset({"x", "y", "z"})
PATTERN = re.compile("a+")

@dataclasses.dataclass(frozen=True)
class Rule:
    least: int = 3

    def holds(self, x):
        return x >= self.least

def called(module, x):
    return module.whole(x)

def made(by):
    import enclosed

    def inner(x, more=2, default=defaults):
        "What it does."
        # why
        from packed import later

        x = called(passed, later.late(enclosed.within(x))) + default.given(x) + INSIDE["inside"].kept(x)
        if x in SEEN or PATTERN.match(str(x)) or x in {"p", "q"}:
            return [len(word) for word in str(x).split()]
        return cached(twice(x) * by + helpers.thrice(more)) + RATES["a"] + (1 if Rule().holds(x) else 0) + even(x)
    return inner

def even(x):
    return 1 if x == 0 else odd(x - 1)

def odd(x):
    return 0 if x == 0 else even(x - 1)

function = made(7)
"""

HELPERS = """
import functools

@functools.lru_cache
def cached(x):
    return x + 1

def twice(x):
    return 2 * x

def thrice(x):
    return 3 * x

def unused(x):
    return 4 * x
"""

MODULES = {
    "helpers.py": HELPERS,
    "enclosed.py": "def within(x):\n    return 11 - x\n",
    "passed.py": "def whole(x):\n    return 12 - x\n",
    "defaults.py": "def given(x):\n    return 13 - x\n",
    "inside.py": "def kept(x):\n    return 14 - x\n",
    "packed/later.py": "from deep import down\n\ndef late(x):\n    return down(15 - x)\n",
    "deep.py": "def down(x):\n    return 16 - x\n",
}
"""`packed.later` and what that imports are imported by the function alone, when it runs."""

ALIKE = {
    "a comment": ("# why", "# because"),
    "a docstring": ("What it does.", "What it does well."),
    "lines above": ("import re\n", "import re\n\n\n"),
    "another function beside it": ("function = made(7)", "def other():\n    return 1\n\nfunction = made(7)"),
    "an unused function of the module": ("4 * x", "5 * x"),
}
OTHER = {
    "code": ("twice(x) * by +", "twice(x) + by *"),
    "a constant": (
        "x in SEEN or PATTERN.match(str(x)) or x in {'p', 'q'}".replace("'", '"'),
        'x in SEEN or PATTERN.match(str(x)) or x in {"p"}',
    ),
    "a default": ("more=2", "more=3"),
    "a closure": ("made(7)", "made(8)"),
    "a global value": ('"a": 1.5', '"a": 1.25'),
    "an object": ('re.compile("a+")', 're.compile("b+")'),
    "a class": ("x >= self.least", "x > self.least"),
    "a default of a class": ("least: int = 3", "least: int = 4"),
    "a function behind a cache": ("return x + 1\n", "return x + 2\n"),
    "a function that calls back": ("return 0 if x == 0", "return 2 if x == 0"),
    "a function of another module": ("2 * x", "2.5 * x"),
    "a function read from a module": ("3 * x", "3.5 * x"),
    "a module of the function around it": ("11 - x", "11.5 - x"),
    "a module that is passed on": ("12 - x", "12.5 - x"),
    "a module as a default": ("13 - x", "13.5 - x"),
    "a module within a value": ("14 - x", "14.5 - x"),
    "a module that is imported when the function runs": ("15 - x", "15.5 - x"),
    "what that imports": ("16 - x", "16.5 - x"),
}


CODE = """
import importlib.util, sys
from pyspark.cloudpickle import dumps, loads
from stepwell.planning.function_digest import digest_of

sys.dont_write_bytecode = True
for folder in sys.argv[1:]:
    for name in ("helpers", "enclosed", "passed", "defaults", "inside"):
        sys.modules.pop(name, None)
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("defs", folder + "/defs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(digest_of(loads(dumps(module.function))))
    sys.path.remove(folder)
"""


def digests(root: Path, changes: dict[str, tuple[str, str]], seed: str) -> dict[str, str]:
    """By change, with that of the unchanged files under the empty name, in a process with this seed of hashes."""
    for number, (old, new) in enumerate([("", ""), *changes.values()]):
        folder = root / str(number)
        folder.mkdir()
        files = {"defs.py": FILE, **MODULES}
        assert any(old in text for text in files.values()), old
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text.replace(old, new) if old else text)
    folders = [str(root / str(number)) for number in range(1 + len(changes))]
    command = [sys.executable, "-c", CODE, *folders]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONHASHSEED": seed, "PATH": ""}, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(["", *changes], done.stdout.split(), strict=True))


def test_only_a_change_of_what_it_does_shows(tmp_path_factory: pytest.TempPathFactory) -> None:
    alike = digests(tmp_path_factory.mktemp("alike"), ALIKE, seed="1")
    assert len(set(alike.values())) == 1, alike
    other = digests(tmp_path_factory.mktemp("other"), OTHER, seed="2")
    assert other[""] == alike[""], "the seed of hashes or the folder shows"
    assert len(set(other.values())) == len(other), other


def test_what_cannot_be_told_is_named() -> None:
    lock = __import__("threading").Lock()
    with pytest.raises(NoDigest, match="lock"):
        digest_of(lambda: lock)
    with pytest.raises(NoDigest, match="the reason"):
        digest_of(lambda: lock, lambda value: "the reason" if value is lock else None)
