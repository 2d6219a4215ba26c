"""The digest of a function: the same for what does the same, and another one for every change of what it does."""

from __future__ import annotations

import decimal
import enum
import functools
import http
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stepwell.planning.function_digest import NoDigest, digest_of

FILE = """
import collections
import defaults
import dataclasses
import enum
import functools
import inside
import lazy
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

class Unit(str, enum.Enum):
    KM = "km"

    def metres(self):
        return 1001

class Step(enum.IntEnum):
    UP = 1

    def doubled(self):
        return 2 * self + 5

class Share(float):
    def of(self, x):
        return x * self / 100

class Code(str):
    pass

class Settings(dict):
    def __getattr__(self, name):
        return self[name]

class Extended(functools.partial):
    def __call__(self, x):
        return super().__call__(x) + 17

class Added:
    def __init__(self, function, by):
        functools.update_wrapper(self, function)
        self.by = by

    def __call__(self, x):
        return self.__wrapped__(x) + self.by

UNIT, STEPS, SHARE, CODE, SETTINGS = Unit.KM, {"up": Step.UP}, Share(18), Code("c"), Settings(rate=19)
CODE.length = 20

@functools.partial(Added, by=21)
def added(x):
    return x

extended = Extended(added)

def called(module, x):
    return module.whole(x)

def made(by):
    import enclosed

    def inner(x, more=2, default=defaults):
        "What it does."
        # why
        from packed import later

        x += UNIT.metres() + STEPS["up"].doubled() + SHARE.of(x) + CODE.length + SETTINGS.rate + extended(x) + lazy.later + called(lazy, x)
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
    "lazy.py": "def whole(x):\n    return x\n\ndef __getattr__(name):\n    return 22\n",
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
    "a method of an enumeration of texts": ("return 1001", "return 1002"),
    "a method of an enumeration of numbers": ("2 * self + 5", "2 * self + 6"),
    "a method of a kind of number": ("x * self / 100", "x * self / 10"),
    "a value of a kind of number": ("Share(18)", "Share(18.5)"),
    "an attribute of a kind of text": ("CODE.length = 20", "CODE.length = 20.5"),
    "a value of a kind of dict": ("rate=19", "rate=19.5"),
    "a method of a kind of partial": ("+ 17", "+ 17.5"),
    "what a decorator is given": ("by=21", "by=21.5"),
    "what a module makes when it is asked": ("return 22", "return 22.5"),
}


CODE = """
import importlib.util, sys
from pyspark.cloudpickle import dumps, loads
from stepwell.planning.function_digest import digest_of

sys.dont_write_bytecode = True
for folder in sys.argv[1:]:
    for name in ("helpers", "enclosed", "passed", "defaults", "inside", "lazy"):
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


class Plain(enum.Enum):
    A = 1


class Text(str, enum.Enum):  # noqa: UP042 - as projects write it
    A = "a"


KEPT = {
    "(None, ..., True, 1, 2.5, 3j, 'a', b'a')": "1a59874d523c6f8a6850e3ac308efb01",
    "{'a': [1], 'b': {2, 3}}": "8459d1c0d3712468719be2b661bc4e11",
    "np.float64(2.5)": "f440be53e78e960fe74219e7b21506e4",
    "http.HTTPStatus.OK": "dacac9de7d476488a59005b1d57424de",
    "re.I | re.M": "28d7aaf4e5903f63eabf66f1eeff7b20",
    "re.compile('a+', re.I)": "97668233c73e4acc9411148c722d9169",
    "decimal.Decimal('1.50')": "c043ec43c5ef817f4b43d0789dbe7c63",
    "Plain.A": "e5152fe4ef6d7d27b0e5ef322cd7ea1e",
    "Text": "e746e4edf326f5e8684ea24223baba5a",
    "functools.partial(round, ndigits=2)": "7ddd05cbbdb47b0bfb7bbd2f8c270f48",
    "functools.lru_cache(maxsize=None)(lambda x: x + 1)": "e8259743ce773d129bcbfc918835a9bc",
}
"""Digests from before classes that extend plain ones were told by what they are. They are in the plans of projects."""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="another version of Python has another bytecode")
@pytest.mark.parametrize("value", KEPT)
def test_a_release_changes_no_digest(value: str) -> None:
    names = {"np": np, "http": http, "re": re, "decimal": decimal, "functools": functools, "Plain": Plain, "Text": Text}
    assert digest_of(eval("lambda x: (x, V)", {"V": eval(value, names)})) == KEPT[value]
