"""Errors of Kafka, of schema registries, and of the step log."""

from __future__ import annotations

from base.fault import ExitCode
from stepwell.error_pages.page import Page

TITLE = "Kafka, registries and the step log"

PAGES = (
    Page(
        slug="broker-unreachable",
        classes=("BrokerUnreachable",),
        exit_code=ExitCode.KAFKA,
        what="No broker answered in time.",
        why="It is down, the address is wrong, or something between does not let the connection through.",
        do="Check `kafka.bootstrap.servers`. `stepwell doctor` tries the connection and says how far it comes. A running service waits "
        "for a broker that is away for two minutes, or for one if a step is being read, and goes on by itself if it comes back. Otherwise the "
        "service ends, and the next run goes on where it stopped ([security.md](security.md#a-broker-that-is-away)).",
    ),
    Page(
        slug="login-refused",
        classes=("LoginRefused",),
        exit_code=ExitCode.KAFKA,
        what="The broker does not accept the user, the password, the token or the mechanism.",
        why="The broker says this itself, so it is no matter of the network.",
        do="Check `kafka.sasl.mechanism`, `kafka.sasl.username` and the password ([security.md](security.md)). A secret that a file has "
        "must not end in a blank.",
    ),
    Page(
        slug="broker-not-trusted",
        classes=("BrokerNotTrusted",),
        exit_code=ExitCode.KAFKA,
        what="The broker's certificate cannot be verified, or TLS fails otherwise.",
        why="The authority that signed it is not known here, it has expired, or it is for another name of the host.",
        do="Name the authority with `kafka.ssl.ca.location`, and use the host name of the certificate in `kafka.bootstrap.servers`.",
    ),
    Page(
        slug="certificate-refused",
        classes=("CertificateRefused",),
        exit_code=ExitCode.KAFKA,
        what="The broker does not accept the client's certificate, or there is none.",
        why="The listener asks for a certificate (mTLS). It is missing, has expired, or another authority has signed it.",
        do="Set `kafka.ssl.certificate.location` and `kafka.ssl.key.location`, and look at the dates of the certificate.",
    ),
    Page(
        slug="wrong-protocol",
        classes=("WrongProtocol",),
        exit_code=ExitCode.KAFKA,
        what="The port speaks TLS and the settings do not say so, or the other way round.",
        why="`kafka.security.protocol` does not fit the listener at this port.",
        do="Set it to what the listener is: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`; or take the other port.",
    ),
    Page(
        slug="unknown-host",
        classes=("UnknownHost",),
        exit_code=ExitCode.KAFKA,
        what="The name of the broker's host cannot be resolved.",
        why="It is misspelt, or this machine asks another name server. A broker also announces its own name, which has to be known "
        "here.",
        do="Correct `kafka.bootstrap.servers`, or the broker's `advertised.listeners`.",
    ),
    Page(
        slug="not-authorized",
        classes=("NotAuthorized", "RightsMissing"),
        exit_code=ExitCode.KAFKA,
        what="The broker refuses an operation to the user of the settings.",
        why="A right is missing. Every right that a pipeline needs is in [security.md](security.md).",
        do="`stepwell doctor` tries each right and prints the `kafka-acls` lines for those that are missing.",
    ),
    Page(
        slug="kafka-option",
        classes=("BadOption",),
        exit_code=ExitCode.PROJECT,
        what="An option `kafka.*` is unknown, contradicts what exactly once needs, or cannot be used here.",
        why="The options are those of librdkafka. Some are set by Stepwell, such as the transactional id and the isolation level.",
        do="Correct it or leave it out, as the text says.",
    ),
    Page(
        slug="unknown-topic",
        classes=("UnknownTopic", "NoTopicMatches"),
        exit_code=ExitCode.KAFKA,
        what="A topic or a partition does not exist, or no topic matches a pattern.",
        why="Stepwell creates output topics, and input topics on the broker of `stepwell dev up` alone. A name may be misspelt, or the "
        "broker is another one than you think.",
        do="Create the topic, or correct `subscribe`, `subscribePattern` or `topic` of the table.",
    ),
    Page(
        slug="nothing-since",
        classes=("NothingSince",),
        exit_code=ExitCode.KAFKA,
        what="A source is to begin at a timestamp, and a partition has no message of that time or later.",
        why="Kafka can then not say at which offset to begin.",
        do="Set `startingOffsetsByTimestampStrategy` = `latest` to begin at the end of such a partition.",
    ),
    Page(
        slug="no-such-start",
        classes=("NoSuchStart",),
        exit_code=ExitCode.KAFKA,
        what="`startingOffsets` of a source names an offset that the partition does not hold, or a partition that does not exist.",
        why="Retention or somebody has removed the messages, the number is beyond the end, or the name of a partition is wrong. The end is that "
        "of the messages that count, so it lies before an open transaction of a producer. `startingOffsets` counts where a pipeline begins to "
        "read a topic: at its first start, after `--full-refresh`, and for a source that a change adds.",
        do="Correct `startingOffsets`: -2 begins at the first message that is there, and -1 at the end. A partition that is added later is read "
        "from its first message, whatever `startingOffsets` say.",
    ),
    Page(
        slug="no-leader",
        classes=("NoLeader",),
        exit_code=ExitCode.KAFKA,
        what="A partition exists, and none of its brokers answers for it.",
        why="The brokers that hold its replicas are down.",
        do="Start them, then run again: nothing is lost.",
    ),
    Page(
        slug="offset-gone",
        classes=("OffsetGone",),
        exit_code=ExitCode.KAFKA,
        what="Offsets that have to be read, or read again, are not in the partition any more.",
        why="The retention of the topic removed them, somebody deleted them, or the topic was created again.",
        do="Make the retention longer than a pipeline can stand still. To go on from the messages that are there, rebuild with "
        "`stepwell run --full-refresh`. With a newer checkpoint in a store, [restoring it](backup-restore.md) may need none of them.",
    ),
    Page(
        slug="read-deadline",
        classes=("ReadDeadline",),
        exit_code=ExitCode.KAFKA,
        what="A range of a partition could not be read to its end in time.",
        why="The broker or the leader of the partition is down or very slow, or a transaction of a producer stays open.",
        do="Check both, then run again: the step is read again.",
    ),
    Page(
        slug="write-refused",
        classes=("WriteRefused",),
        exit_code=ExitCode.KAFKA,
        what="The broker refuses a message of a step, and would refuse it again. Nothing of the step was written.",
        why="It is larger than `max.message.bytes` of the topic, a right is missing, or the topic is compacted and the message has no "
        "key. Or `kafka.transaction.timeout.ms` is set to more than `transaction.max.timeout.ms` of the brokers.",
        do="Correct the topic, the rights or the setting, as the text says, and run again: the run goes on with this step.",
    ),
    Page(
        slug="outcome-unknown",
        classes=("OutcomeUnknown",),
        exit_code=ExitCode.KAFKA,
        what="Kafka was away while a step was committed, so it is not known whether it was.",
        why="The answer to the commit has not come.",
        do="Nothing is lost. When the broker is back, `stepwell run` reads the step log, which says it, and goes on.",
    ),
    Page(
        slug="broker-refused",
        classes=("BrokerRefused",),
        exit_code=ExitCode.KAFKA,
        what="The broker answered with an error for which Stepwell has no text of its own.",
        why="The text is that of Kafka.",
        do="Look into the log of the broker. Then run again: a run goes on where it was.",
    ),
    Page(
        slug="fenced",
        classes=("Fenced",),
        exit_code=ExitCode.HELD,
        what="Another run of this pipeline has taken over. This one has written nothing since.",
        why="Somebody started it elsewhere with `--take-over`, or this run was silent for longer than `stepwell.takeover.silence`.",
        do="Nothing, if that was intended. Otherwise stop the other run and start this one. Two projects with one `name:` look the "
        "same.",
    ),
    Page(
        slug="registry-unreachable",
        classes=("RegistryUnreachable",),
        exit_code=ExitCode.KAFKA,
        what="A schema registry gives no answer. Nothing of the step was written.",
        why="It is down, its address is wrong, or a proxy before it does not reach it. A 404 counts as no answer unless its body has a "
        "registry's `error_code` (40401 to 40499), because a proxy without a backend, and any other server, answers 404 to everything.",
        do="Check `schema.registry.url` of the table or `stepwell.registry.url`, also its path: that of Apicurio ends with `/apis/ccompat/v7`. "
        "Then run again.",
    ),
    Page(
        slug="registry-refused",
        classes=("RegistryRefused", "SchemaGone"),
        exit_code=ExitCode.KAFKA,
        what="A schema registry refuses what it was asked for, or its answer is of another form than a registry's.",
        why="401 and 403 are a login or a right, 404 a schema that is not there, and 409 a schema that its subject is not compatible "
        "with. A redirect is not followed, because the password would follow too. An answer of another form comes from another server, or from "
        "a proxy or a page for logins.",
        do="Name the registry itself, with its path, in `schema.registry.url` or `stepwell.registry.url`. Set `stepwell.registry.auth` (or "
        "`STEPWELL_REGISTRY_AUTH_FILE`), or give the output another topic, or change the compatibility.",
    ),
    Page(
        slug="topic-changed",
        classes=("TopicChanged",),
        exit_code=ExitCode.KAFKA,
        what="A topic that the pipeline reads or writes is not the one that was recorded, or cannot be what the project wants of it.",
        why="It was deleted and created again, it has another number of partitions, it holds messages that Stepwell has not written, or "
        "a pattern matches an own output.",
        do="The text says which. A new output topic has to be empty. An output topic with more partitions than before is rebuilt by "
        "`stepwell run --full-refresh` where that deletes what was written. One that is compacted, or has mode upsert, has to be deleted "
        "before, or another be named, because a key's row and the tombstone of its former row could be in two partitions. Without its topic of "
        "dead letters a pipeline goes on as soon as `dead.letter.topic` names another one. What was lost with an input or an output comes back "
        "only with `stepwell run --full-refresh`. A project that can do without the topic may leave it by `stepwell run --apply`, where the "
        "text says so (docs/evolution.md).",
    ),
    Page(
        slug="step-log-gone",
        classes=("StepLogGone",),
        exit_code=ExitCode.KAFKA,
        what="The pipeline has no step log on this broker.",
        why="It never ran, the broker is another one, the project has another `name:`, or the topic `stepwell.NAME.steps` was deleted.",
        do="If it never ran, run it. If the topic was deleted, restore it from a replica: without it the state cannot go on "
        "([durability.md](durability.md)). Without a replica, delete the topics that the pipeline writes to, and rebuild with "
        "`stepwell run --full-refresh`.",
    ),
    Page(
        slug="step-log",
        classes=(
            "BadLogRecord",
            "BrokenStepLog",
            "LogOffsetGone",
            "PlanMissing",
            "UnsuitableStepLog",
            "UnsuitablePlanTopic",
            "StepBeyondEnd",
        ),
        exit_code=ExitCode.KAFKA,
        what="The step log, or the topic of plan documents, cannot be read as a history of this pipeline. Nothing was changed.",
        why="Something else has written into `stepwell.NAME.steps` or `stepwell.NAME.plans`, records were lost, its configuration loses "
        "records, or a newer version of Stepwell has written it.",
        do="For a newer version, install that one. Correct the configuration that is named. Otherwise restore the topic from a replica. Without "
        "one, a full refresh alone is refused too, because only the log says which messages are the pipeline's own. Then do what the text says, "
        "in its order: stop every run, delete the log's topic and the topics that the pipeline writes to, and `stepwell run --full-refresh`. "
        "`stepwell run` and `stepwell doctor` name these topics. Nobody but Stepwell should have the right to write there "
        "([security.md](security.md)).",
    ),
    Page(
        slug="input-changed",
        classes=("InputChanged",),
        exit_code=ExitCode.KAFKA,
        what="A range of input that was read before holds other messages now.",
        why="The topic was created again, compacted, or has expired below the last checkpoint.",
        do="Correct its retention. A compacted input topic needs a `min.compaction.lag.ms` that is longer than a pipeline can stand still "
        "after a crash; Kafka's default is 0, and `stepwell doctor` warns of it. Then rebuild with `stepwell run --full-refresh`.",
    ),
    Page(
        slug="replay-differs",
        classes=("DigestMismatch", "ErrorsDiffer"),
        exit_code=ExitCode.STATE,
        what="A step that was run again gave another output than the first time. Nothing was written.",
        why="Something that a view uses is not deterministic, or was changed: mostly a function in Python, or a library that it uses.",
        do="Put the former version back and run again. If that is not possible, rebuild with `stepwell run --full-refresh`. If only SQL "
        "is concerned, it is a bug in Stepwell: please report it ([support.md](support.md)).",
    ),
    Page(
        slug="load-not-alone",
        classes=("NotAlone",),
        exit_code=ExitCode.KAFKA,
        what="Somebody else has written into the topic to which a batch table is loaded.",
        why="Only Stepwell may write to its topics.",
        do="Take that right away from others, and run again: the table is loaded into another topic.",
    ),
    Page(
        slug="local-broker",
        classes=("LocalBrokerFault",),
        exit_code=ExitCode.KAFKA,
        what="The local broker of `stepwell dev up` cannot be started, found or stopped.",
        why="Its port is taken, its folder cannot be written, or it has ended at once. The text quotes its log.",
        do="`stepwell dev up --port N` takes another port for a new folder (`--folder`).",
    ),
    Page(
        slug="jars",
        classes=("JarsUnavailable",),
        exit_code=ExitCode.MACHINE,
        what="Kafka's jars, or Java, are not on this machine and could not be fetched.",
        why="The local broker is Kafka's own. Its jars are fetched once, from Maven Central or from the repository in the file that "
        "`STEPWELL_IVY_SETTINGS` names.",
        do="Let this machine reach it, or name another broker with `kafka.bootstrap.servers`: a pipeline needs no jars.",
    ),
)
