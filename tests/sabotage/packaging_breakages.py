"""Mistakes in what is packed, and in where the processes of a run find each other."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

ONE_PACKAGE = "an installed Stepwell imports nothing by a name that others may have"
PACKAGING = "tests/test_packaging.py"
ADDRESSES = "tests/engine/resident/test_addresses.py"

PACKED = (
    Breakage(
        "imports-as-in-the-repository",
        "A wheel has the imports of the repository, so a package of others with the name of a room is imported.",
        ONE_PACKAGE,
        (
            Edit(
                "setup.py",
                "        elif isinstance(node, ast.ImportFrom) and node.level == 0",
                "        elif isinstance(node, ast.ImportFrom) and node.level == 1",
            ),
        ),
        (
            f"{PACKAGING}::test_an_import_of_a_room_leads_into_the_package",
            f"{PACKAGING}::test_no_module_of_a_wheel_imports_a_room_by_its_name_in_the_repository",
        ),
    ),
    Breakage(
        "a-module-named-by-a-text",
        "Spark's daemon is named as in the repository, where a wheel has it under another name.",
        ONE_PACKAGE,
        (Edit("engine/resident/preload.py", 'f"{__package__}.daemon"', '"engine.resident.daemon"'),),
        (f"{PACKAGING}::test_no_text_names_a_module_of_a_room",),
    ),
    Breakage(
        "a-pickle-by-our-name",
        "The recorded pickle of a function names a module of Stepwell, which another installation has under another name.",
        ONE_PACKAGE,
        (
            Edit(
                "stepwell/planning/python_functions.py",
                "and (module is rebuilt or not is_installed(name))",
                "and not is_installed(name)",
            ),
        ),
        ("tests/stepwell/test_python_functions.py::test_a_pickle_names_no_module_of_stepwell",),
    ),
    Breakage(
        "loopback-by-one-address",
        "A host of which one address is on loopback counts as this machine, so its connections are not encrypted.",
        "connections between hosts are encrypted",
        (Edit("engine/resident/addresses.py", "return all(ipaddress", "return any(ipaddress"),),
        (f"{ADDRESSES}::test_a_name_that_leads_elsewhere_too_is_not_loopback",),
    ),
)
