"""Errors of a project, its settings, and what is asked of it."""

from __future__ import annotations

from base.fault import ExitCode
from stepwell.error_pages.page import Page

TITLE = "The project, its settings, and commands"

PAGES = (
    Page(
        slug="settings",
        classes=("SettingsError",),
        exit_code=ExitCode.PROJECT,
        what="A setting does not exist, or has a value that it cannot have.",
        why="The text names the key and the place that it came from: a flag, the environment, or `spark-pipeline.yml`. The first of "
        "these that has the key decides.",
        do="Correct it there. [settings.md](settings.md) has all settings with their bounds. `stepwell doctor` reads the settings as "
        "`run` does.",
    ),
    Page(
        slug="project",
        classes=("ProjectError", "NotStreaming"),
        exit_code=ExitCode.PROJECT,
        what="A definition, or the project file, cannot be run as it is written.",
        why="The text names the file and the line, and the view if it is known. Spark's own errors about a query come with Spark's "
        "text.",
        do="Correct the place that is named. `stepwell dry-run` finds all such errors at once and needs no Kafka. [sql.md](sql.md) says "
        "what runs, and [formats.md](formats.md) what a table's properties may be.",
    ),
    Page(
        slug="not-supported",
        classes=("UnsupportedError",),
        exit_code=ExitCode.PROJECT,
        what="A definition is correct in Spark, and Stepwell does not run it.",
        why="Some of Spark cannot be kept up to date incrementally, or not yet. Functions of chance and place are among them, because a "
        "replay would give another output, and the clock in tables and sinks whose rows stay as they were written.",
        do="The text says what to write instead where there is something. [sql.md](sql.md) has the list.",
    ),
    Page(
        slug="format",
        classes=("FormatError",),
        exit_code=ExitCode.PROJECT,
        what="A declared table or an output has a column that its message format cannot have.",
        why="Not every type of Spark has a form in JSON, Avro, Protobuf or CSV.",
        do="Declare the type that the text names, or cast the column in the view. [formats.md](formats.md) has the types by format.",
    ),
    Page(
        slug="files-gone",
        classes=("FilesGone",),
        exit_code=ExitCode.PROJECT,
        what="A definition reads files that are not there.",
        why="Spark looks at the files of a batch table when it plans the query, also if their rows were read at an earlier start.",
        do="Put the files back, or correct the path. `stepwell run --as-recorded` runs the recorded project without them.",
    ),
    Page(
        slug="several-errors",
        classes=("ProjectErrors",),
        exit_code=None,
        what="The project has several errors, which are listed together.",
        why="All views are looked at before the command ends, so that you can correct them at once.",
        do="Correct each. The last lines name the page of each kind.",
    ),
    Page(
        slug="own-mistake",
        classes=("OwnMistake",),
        exit_code=ExitCode.INTERNAL,
        what="A view meets a bug in Stepwell.",
        why="The text names the exception and the line of code. Other views are not concerned.",
        do="Report it with the text and the definition ([support.md](support.md)). Until it is fixed, write this part of the view in "
        "another way.",
    ),
    Page(
        slug="definitions-changed",
        classes=("DefinitionsChanged",),
        exit_code=ExitCode.PROJECT,
        what="The definitions give another plan than before, though no file of the project has changed.",
        why="A definition in Python depends on something outside the project's folder: the time, the environment, a file, a package.",
        do="Move what it depends on into the project or its `configuration`, so that the same files always give the same plan.",
    ),
    Page(
        slug="circuit-changed",
        classes=("CircuitChanged",),
        exit_code=ExitCode.STATE,
        what="The project is not the one that the state belongs to.",
        why="A file was changed, or another version of Stepwell or of Python computes something in another way. The state would not "
        "fit.",
        do="`stepwell plan` shows what the change would do. `stepwell run --apply` makes it, and `stepwell run --as-recorded` runs the "
        "project without it. See [evolution.md](evolution.md).",
    ),
    Page(
        slug="query",
        classes=("QueryError", "AnswerBrokeOff", "ReadsElsewhere"),
        exit_code=ExitCode.PROJECT,
        what="The query of `stepwell query` is wrong or not supported.",
        why="It can read the kept views alone: those without a topic, and those with an upsert or changelog topic.",
        do="Correct the query. The text lists the views that can be read.",
    ),
    Page(
        slug="request",
        classes=("StepwellError", "NoRows"),
        exit_code=ExitCode.PROJECT,
        what="The command asks for something that is not there or cannot be done, such as a step that was never run.",
        why="The text says which, and what there is.",
        do="Ask for what the text names. [commands.md](commands.md) has every command with its options.",
    ),
    Page(
        slug="choice-refused",
        classes=("ChoiceRefused", "UnknownTable"),
        exit_code=ExitCode.PROJECT,
        what="An option of `plan`, `apply` or `run --apply` names something that the project does not have, or has no effect.",
        why="`--from-now`, `--append`, `--retract` and `--reload` take the names of sources, outputs and batch tables as the project "
        "has them.",
        do="Take a name that the text lists. See [Choices](evolution.md#choices).",
    ),
)
