"""What a crew puts into the checkpoint store, and what it takes from there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from base.logger import Logger
from base.version import VersionId
from engine.resident.crew.workers import Workers
from engine.resident.messages import RestoreDatabase, StoreVersion, VersionStored
from engine.resident.roster import POLL_SECONDS
from storage.remote.errors import StoreUnreachable

_log = Logger("engine.resident.crew")


class CrewStore:
    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def begin_upload(self, version: VersionId, former: Mapping[int, str], prefixes: Mapping[int, str]) -> None:
        """The workers of `prefixes` begin to upload their state of a version in the background. `poll_upload` reports when that is over.
        `former`: the chains of the version that was stored before, by worker."""
        orders = {
            number: StoreVersion(version=version, former=former.get(number), prefix=prefix)
            for number, prefix in prefixes.items()
        }
        self._workers.roster.begin(StoreVersion, orders)

    def poll_upload(self) -> dict[int, VersionStored] | None:
        """The answers to `begin_upload`; None until all have answered, also if one has failed, because the next upload comes after all of them.
        A worker that has left meanwhile is not among them. Raises the fault of the lowest worker that had one, and TaskLost if a worker was
        lost."""
        self._workers.roster.poll(0.0)
        answers = self._workers.roster.poll_answers(StoreVersion)
        return None if answers is None else {number: answer for number, (answer, _) in answers.items()}

    def restore(self, version: VersionId, chains: Mapping[int, str], distrusted: Collection[int]) -> None:
        """`distrusted`: those whose databases are damaged. These workers make their databases of what the store has. It waits for all of them,
        and a download may take long: a worker that gives signs of life is waited for. Raises the fault of a worker as soon as it is there, and
        TaskLost. But StoreUnreachable comes when all others are done, and then the same may be asked again."""
        if not chains:
            return
        roster = self._workers.roster
        orders = {
            number: RestoreDatabase(version=version, chain=chain, trusts=number not in distrusted)
            for number, chain in chains.items()
        }
        roster.begin(RestoreDatabase, orders)
        while True:
            roster.poll(POLL_SECONDS)
            with suppress(StoreUnreachable):
                roster.raise_failures(RestoreDatabase)
            if roster.poll_answers(RestoreDatabase) is not None:
                break
        for number in sorted(chains):
            host = roster.members[number].registered.host
            _log.info("database restored from the store", worker=number, host=host, version=version.version)
