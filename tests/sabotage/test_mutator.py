"""A mutant is another program, and its place in the text is the node's."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests.sabotage.judged import JUDGED
from tests.sabotage.mutants import ROOT, files_that_test
from tests.sabotage.mutator import mutants_of

CODE = """
def f(x: int = 3) -> str:
    \"\"\"Between 1 and 2.\"\"\"
    assert x != 7, "no"
    log.info("ä", x + 1)
    g(x)
    return "ä" if not x < 2 and any(x for x in range(90)) else min(x, -1)
"""


def test_the_mutants_of_a_function(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CODE)
    told = [mutant.told(tmp_path) for mutant in mutants_of(tmp_path, "code.py")]
    last = CODE.splitlines()[-1].strip()
    assert {after for before, after in told if before != last} == {"def f(x: int = (4)) -> str:", "pass"}
    assert {after for before, after in told if before == last} == {
        """return ((min(x, -1)) if (not x < 2 and any((x for x in range(90)))) else ('ä'))""",
        """return "ä" if ((not x < 2) or (any((x for x in range(90))))) else min(x, -1)""",
        """return "ä" if (not x < 2) else min(x, -1)""",
        """return "ä" if (x < 2) and any(x for x in range(90)) else min(x, -1)""",
        """return "ä" if not (x <= 2) and any(x for x in range(90)) else min(x, -1)""",
        """return "ä" if not x < (3) and any(x for x in range(90)) else min(x, -1)""",
        """return "ä" if not x < 2 and (all((x for x in range(90)))) else min(x, -1)""",
        """return "ä" if not x < 2 and any(x for x in range(90)) else (max(x, -1))""",
        """return "ä" if not x < 2 and any(x for x in range(90)) else min(x, -(2))""",
    }


def test_a_mutant_of_our_code_is_another_program() -> None:
    chance = random.Random(3)
    for file in chance.sample(sorted(str(path.relative_to(ROOT)) for path in (ROOT / "engine").rglob("*.py")), 6):
        text = (ROOT / file).read_text()
        whole = ast.dump(ast.parse(text))
        for mutant in mutants_of(ROOT, file):
            changed = text[: mutant.start] + mutant.new + text[mutant.end :]
            assert ast.dump(ast.parse(changed)) != whole, mutant


@pytest.mark.long
def test_a_module_has_the_tests_that_import_it() -> None:
    assert files_that_test("engine/operators/top_k.py")[0] == "tests/engine/test_top_k.py"
    assert files_that_test("base/ranges.py"), "no test imports it, and tests of what stands on it do"


def test_what_was_judged_is_still_there() -> None:
    gone = [(file, line) for file, line, _ in JUDGED if line not in map(" ".join, map(str.split, (ROOT / file).open()))]
    assert not gone
