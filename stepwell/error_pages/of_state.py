"""Errors of the state: the databases of the workers, their disks, and the checkpoint store."""

from __future__ import annotations

from base.fault import ExitCode
from stepwell.error_pages.page import Page

TITLE = "The state and the checkpoint store"

PAGES = (
    Page(
        slug="state-lost",
        classes=("StateLost", "DatabaseMissing", "NoCommonVersion", "NoDatabase"),
        exit_code=ExitCode.STATE,
        what="The step log and the databases do not belong together, or a database is missing.",
        why="The storage folder was deleted, exchanged or put back from an old copy; a host is not there whose disk has a database; or "
        "another version of Stepwell is needed first. The text says which.",
        do="Bring the folder or the host back. With a checkpoint store a start restores what is missing by itself "
        "([durability.md](durability.md)). If nothing has the state any more, rebuild it from the input with `stepwell run "
        "--full-refresh`.",
    ),
    Page(
        slug="state-damaged",
        classes=("CorruptRecord", "CorruptFile"),
        exit_code=ExitCode.STATE,
        what="A database does not have what was written to it: a checksum does not match, or the file cannot be read. Nothing was "
        "changed.",
        why="The disk or the memory fails, or another program has written to the file.",
        do="Keep a copy of the folder and check the machine. With a checkpoint store a start restores the database by itself. Otherwise "
        "rebuild the state with `stepwell run --full-refresh`.",
    ),
    Page(
        slug="other-format",
        classes=("OtherFormat", "OtherPackFormat"),
        exit_code=ExitCode.STATE,
        what="The state was written by another version of Stepwell, whose format this one does not read.",
        why="An update or a step back has changed the format.",
        do="Run the version that wrote it, or rebuild the state with `stepwell run --full-refresh`. [How to upgrade](upgrade.md).",
    ),
    Page(
        slug="wrong-database",
        classes=("WrongDatabase",),
        exit_code=ExitCode.STATE,
        what="A folder holds the database of another pipeline, worker or step log.",
        why="Two projects share a storage folder, or folders were exchanged.",
        do="Give each project its own `storage:`, and put the folders back where they were.",
    ),
    Page(
        slug="disk-full",
        classes=("StorageFull",),
        exit_code=ExitCode.STATE,
        what="A database could not be written. The last checkpoint is intact.",
        why="The disk is full, or a write to it has failed.",
        do="Free some space or check the disk, then run again: the run goes on from the checkpoint.",
    ),
    Page(
        slug="no-disk-space",
        classes=("NoDiskSpace",),
        exit_code=ExitCode.STATE,
        what="A change of the number of workers would move more than is free on the disk of a host. Nothing was changed.",
        why="What is moved lies on both hosts until it is settled.",
        do="Free some space there, or ask for another number of workers. `stepwell layout plan` shows what would move.",
    ),
    Page(
        slug="database-locked",
        classes=("WriterBlocked",),
        exit_code=ExitCode.STATE,
        what="Another process has held the lock of a database for too long.",
        why="It is a process of Stepwell that hangs or was stopped (SIGSTOP).",
        do="Kill the process that the text names (`kill -9 PID`) and run again. This loses no data.",
    ),
    Page(
        slug="database",
        classes=("StorageError",),
        exit_code=ExitCode.STATE,
        what="A database cannot be opened or used.",
        why="The text is that of the system or of LMDB: mostly a right, or a limit of the process.",
        do="Correct what it names, then run again.",
    ),
    Page(
        slug="store",
        classes=("StoreFault", "FaultAtRoot"),
        exit_code=ExitCode.STATE,
        what="The checkpoint store does not work as it has to, or an upload to it has failed.",
        why="Its disk loses or hides what was written, or a worker could not read its state for the upload.",
        do="`stepwell doctor` tries the store. A running pipeline tries an upload again, and goes on from its disks meanwhile.",
    ),
    Page(
        slug="store-uri",
        classes=("BadStoreUri",),
        exit_code=ExitCode.PROJECT,
        what="`stepwell.store` is no URI of a checkpoint store, or names a bucket that does not exist.",
        why="Credentials and options are refused in it too: they would be shown.",
        do="Write one of the forms of [durability.md](durability.md), and give credentials by the environment.",
    ),
    Page(
        slug="store-unreachable",
        classes=("StoreUnreachable",),
        exit_code=ExitCode.STATE,
        what="The checkpoint store gives no answer.",
        why="It is down, or this host cannot reach it.",
        do="Check both with `stepwell doctor`. A running pipeline tries again until `stepwell.store.lag.max`.",
    ),
    Page(
        slug="store-denied",
        classes=("StoreDenied",),
        exit_code=ExitCode.STATE,
        what="The checkpoint store refuses an operation.",
        why="The credentials are wrong, or a right is missing: to write, read, list or delete.",
        do="Grant the right that the text names; [durability.md](durability.md) has a policy for S3. The rights of every host count.",
    ),
    Page(
        slug="store-full",
        classes=("StoreFull",),
        exit_code=ExitCode.STATE,
        what="The checkpoint store has no room left. Nothing was replaced.",
        why="Its disk is full, or a quota is used up.",
        do="Free some space, or raise the quota. `stepwell backup list` shows the backups, which keep objects.",
    ),
    Page(
        slug="store-damaged",
        classes=("ObjectMissing", "DamagedPack", "ForeignPack", "DamagedStore", "DamagedManifest"),
        exit_code=ExitCode.STATE,
        what="The checkpoint store does not have what Stepwell has written there.",
        why="An object was deleted, changed or exchanged by something else, such as a rule for the life of objects, or two pipelines "
        "share a place.",
        do="Keep a copy of what is there. `stepwell backup list` shows the versions that can be restored. If there is none and the "
        "disks are lost, rebuild with `stepwell run --full-refresh`.",
    ),
    Page(
        slug="backup-name",
        classes=("BadBackup",),
        exit_code=ExitCode.STATE,
        what="There is a backup of this name already, there is none, or the name cannot be one.",
        why="A name is that of an object in the store.",
        do="`stepwell backup list` shows the names. Use letters, digits, `.`, `_` and `-`.",
    ),
    Page(
        slug="not-restored",
        classes=("NotRestored",),
        exit_code=ExitCode.STATE,
        what="`stepwell restore --to FOLDER` could not make the databases there. Nothing else was changed.",
        why="The folder has other databases, the version is not in the store, or the project has its databases in `stepwell.local.dir`.",
        do="Name an empty folder, or another version. A start on a host without databases makes them by itself.",
    ),
    Page(
        slug="copy-refused",
        classes=("CopyRefused",),
        exit_code=ExitCode.STATE,
        what="A pipeline cannot begin as a copy of another one. Nothing was changed.",
        why="The text says what is in the way: a topic in use, an expired input, or a name that is taken.",
        do="See the table in [durability.md](durability.md#a-copy-for-staging).",
    ),
    Page(
        slug="no-state",
        classes=("NoState", "NoAnswer"),
        exit_code=ExitCode.STATE,
        what="There is nothing to answer a query from, or the workers have not answered in time.",
        why="Before the first checkpoint there is no version to read. While workers start, or stand at different checkpoints, they "
        "cannot answer.",
        do="`stepwell checkpoint` makes one. Otherwise ask again; `stepwell status` shows what the service does.",
    ),
)
