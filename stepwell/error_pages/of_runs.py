"""Errors of runs: the holder of a pipeline, requests to a service, workers, and the machine."""

from __future__ import annotations

from base.fault import ExitCode
from stepwell.error_pages.page import Page

TITLE = "Runs, requests, workers and machines"

PAGES = (
    Page(
        slug="held-by-another",
        classes=("HeldByAnother",),
        exit_code=ExitCode.HELD,
        what="Another run of this pipeline is alive.",
        why="A pipeline has one run at a time. The text says which process on which host it is, or how long the step log has to be "
        "silent before the run counts as dead (`stepwell.takeover.silence`).",
        do="Use that one, or stop it with `stepwell stop`. `stepwell run --hand-over` replaces it with a short pause, and `--take-over` "
        "fences a run that cannot be reached any more.",
    ),
    Page(
        slug="not-running",
        classes=("NotRunning",),
        exit_code=ExitCode.NOT_RUNNING,
        what="No service runs that could be asked.",
        why="It was never started, it has ended (the text says how), or it runs for another project folder or user.",
        do="Start it with `stepwell run`. Run commands in the project's folder or with `--spec`, as the user of the service.",
    ),
    Page(
        slug="service-silent",
        classes=("ServiceSilent",),
        exit_code=ExitCode.NOT_RUNNING,
        what="The service does not answer, although its process lives.",
        why="The process is stopped (as by SIGSTOP), the machine is too busy, or the process hangs. The text says which process it is and "
        "what it does. A command that follows a change waits for a minute before it gives up, and the change goes on.",
        do="Ask again. If it stays silent, see the log of the service, or end the process as the text says and start it with `stepwell run`, "
        "which loses nothing.",
    ),
    Page(
        slug="revision-refused",
        classes=("RevisionRefused", "TransitionRefused"),
        exit_code=None,
        what="A change of the project cannot be made now. Nothing was changed.",
        why="The plan is refused, another change is under way, there is too little room, or the files do not define what was shown.",
        do="The text says what to do. [What is refused](evolution.md#what-is-refused) has every reason.",
    ),
    Page(
        slug="not-applied",
        classes=("NotApplied",),
        exit_code=ExitCode.STATE,
        what="A change of the project has ended, and the revision that was asked for is not in force.",
        why="It was aborted, or it waits: an append output would have to take rows back, or a new view has an error.",
        do="`stepwell revision show` says what it waits for. See [evolution.md](evolution.md).",
    ),
    Page(
        slug="nothing-recorded",
        classes=("NothingRecorded",),
        exit_code=ExitCode.STATE,
        what="The pipeline has no recorded revision to compare with or to run.",
        why="It has never run, or a release has written its log that recorded none.",
        do="`stepwell run` begins with the project of the files.",
    ),
    Page(
        slug="layout-refused",
        classes=("LayoutRefused", "LayoutAsAsked", "RescaleRefused", "LayoutIsAsAsked"),
        exit_code=ExitCode.STATE,
        what="A change of the number of workers cannot be made now. Nothing was changed.",
        why="Another one is under way, the layout is as asked already, or no such host has workers.",
        do="`stepwell layout show` shows what there is. See [layouts.md](layouts.md).",
    ),
    Page(
        slug="layout-not-as-asked",
        classes=("NotAsAsked",),
        exit_code=ExitCode.STATE,
        what="A change of the number of workers has ended with another layout.",
        why="It was reversed or aborted, got another target, or the run that made it was stopped before the end.",
        do="`stepwell layout show` has the layout in force, and the change that the next run goes on with, if there is one.",
    ),
    Page(
        slug="no-task-there",
        classes=("NoTaskThere",),
        exit_code=ExitCode.MACHINE,
        what="Workers should move to another host, and Spark has started too few tasks there.",
        why="Its executors have no free task slots, or are still starting.",
        do="Give Spark free slots there. Stop the executor of the host that leaves only after the change. Nothing is lost.",
    ),
    Page(
        slug="no-slots",
        classes=("NoSlots",),
        exit_code=ExitCode.MACHINE,
        what="Not all workers got a task slot of Spark in time.",
        why="A worker is a Spark task that lives as long as the run, so all of them need a slot at once.",
        do="Give Spark more slots (`spark.master`, `spark.cores.max`, executors), run with fewer workers (`--workers N`), or raise "
        "`stepwell.worker.register`. Nothing is lost.",
    ),
    Page(
        slug="recruits-failed",
        classes=("RecruitsFailed",),
        exit_code=ExitCode.MACHINE,
        what="Tasks that were to become workers have ended at once.",
        why="Stepwell or a library is missing on a host, or a host cannot reach the service. The text quotes the first of them.",
        do="Look into Spark's log in the storage folder and those of the executors. [cluster.md](cluster.md) says what each host needs.",
    ),
    Page(
        slug="host-folder",
        classes=("NoHostFolder",),
        exit_code=ExitCode.PROJECT,
        what="A host of the cluster has no folder for the databases of its workers.",
        why="`stepwell.local.dir` is not set, or cannot be written there.",
        do="Set it to a folder that exists on every host and outlives the executors, or set `STEPWELL_LOCAL_DIR` for each.",
    ),
    Page(
        slug="insecure-cluster",
        classes=("InsecureCluster",),
        exit_code=ExitCode.PROJECT,
        what="Workers on other hosts would get the key of the run over a channel that others can read.",
        why="Spark's own authentication or encryption is off.",
        do="Set what the text names ([cluster.md](cluster.md)), or `stepwell.cluster.insecure=true` on a network whose users you trust.",
    ),
    Page(
        slug="unequal-hosts",
        classes=("UnequalWorkers", "UnequalReleases"),
        exit_code=ExitCode.MACHINE,
        what="A host has other libraries, or a release of Stepwell that does not speak with that of the service.",
        why="Other libraries could compute other bytes, which a replay would contradict.",
        do="Install the same versions on all hosts. [How to upgrade](upgrade.md) has the order. Nothing is lost.",
    ),
    Page(
        slug="workers-unknown",
        classes=("WorkersUnknown",),
        exit_code=ExitCode.PROJECT,
        what="Nothing says how many workers a new pipeline on a cluster has.",
        why="In local mode it is one for each core; on a cluster there is no such number.",
        do="Set `stepwell.workers`, or run with `--workers N`. [How to size a machine](size-machine.md).",
    ),
    Page(
        slug="recovery-failed",
        classes=("RecoveryFailed",),
        exit_code=ExitCode.STATE,
        what="The same step, or the same checkpoint, has failed several times in a row. No data was lost.",
        why="A worker dies at the same place each time: mostly for want of memory, or a library that crashes. The text quotes the last "
        "failure.",
        do="Look for the cause in Spark's log in the storage folder and with `dmesg`. A smaller `stepwell.step.rows.max` needs less "
        "memory. Then run again.",
    ),
    Page(
        slug="recovered",
        classes=(
            "TaskLost",
            "StaleTask",
            "Redivided",
            "StepTooLarge",
            "NotOpen",
            "UnknownVersion",
            "CheckpointPending",
            "StaleEpoch",
            "DatabaseExists",
            "ForkedWhileOpen",
            "Gone",
            "Replaced",
            "TopicExists",
        ),
        exit_code=None,
        what="Something that a run handles by itself: a worker was lost, a step was divided again, or a database was opened elsewhere.",
        why="Such an error stands in the log beside a recovery. A command does not end with it, unless it is the last of several.",
        do="Nothing, while the pipeline goes on. If a command ended with it, it is a bug in Stepwell: please report it with `stepwell "
        "bundle`.",
    ),
    Page(
        slug="spark-unavailable",
        classes=("SparkUnavailable", "LocalSparkFault"),
        exit_code=ExitCode.MACHINE,
        what="Spark did not start, or has ended.",
        why="Java is missing or too old, there is too little memory, or a setting `spark.*` is wrong. The text quotes Spark.",
        do="`stepwell doctor` checks Java and Spark. The log is `spark.log` below the storage folder.",
    ),
    Page(
        slug="place-unusable",
        classes=("PlaceUnusable",),
        exit_code=ExitCode.MACHINE,
        what="A file or a folder cannot be read or written.",
        why="Its owner or its rights, a disk that is full or read-only, or a file where a folder should be.",
        do="Correct that, or name another place: `storage:` of the project file, `stepwell.local.dir`, `XDG_CACHE_HOME`.",
    ),
    Page(
        slug="metrics-listener",
        classes=("MetricsUnavailable",),
        exit_code=ExitCode.MACHINE,
        what="The listener for metrics cannot be opened.",
        why="Its address is taken or not of this machine, or the file with its token cannot be used.",
        do="Correct `stepwell.metrics.address` or `stepwell.metrics.token.file` ([monitoring.md](monitoring.md)).",
    ),
    Page(
        slug="control-port",
        classes=("PortUnavailable",),
        exit_code=ExitCode.MACHINE,
        what="The control endpoint cannot listen at its port.",
        why="Another program has it, mostly the service of another project with the same `stepwell.control.port`.",
        do="Take another port, or 0 for any that is free.",
    ),
)
