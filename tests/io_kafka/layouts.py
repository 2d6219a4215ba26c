"""Records of layouts, as a new state has them."""

from __future__ import annotations

from base.slots import SLOTS, SlotSet
from base.version import VersionId
from io_kafka.step_log.layout_records import (
    AutoBounds,
    FixedPart,
    LayoutAuto,
    LayoutIntent,
    LayoutRecord,
    LayoutTurn,
    Ownership,
    Target,
    ranges_of,
)
from io_kafka.step_log.numbered import Numbered
from io_kafka.step_log.records import CheckpointStored, Claim, Copied, Origin, RevisionRecord
from io_kafka.step_log.revision_state import RevisionState
from io_kafka.step_log.state import StepLogState

SHARDS = 8


def owned_by(*workers: int) -> dict[int, SlotSet]:
    """An even share of the slots for each of these workers."""
    ends = [SLOTS * i // len(workers) for i in range(len(workers) + 1)]
    return {worker: SlotSet(((ends[i], ends[i + 1]),)) for i, worker in enumerate(workers)}


def placed(*workers: int, birth: str = "0") -> Ownership:
    return Ownership.of(dict.fromkeys(workers, birth), owned_by(*workers))


def layout(number: int = 0, epoch: int = 0, workers: tuple[int, ...] = (0, 1), birth: str = "0") -> LayoutRecord:
    return LayoutRecord(
        epoch=epoch,
        number=number,
        shards=SHARDS,
        policy=FixedPart(shards=SHARDS),
        placed=placed(*workers, birth=birth),
        asked=None,
        outcome="first" if number == 0 else "changed",
    )


def target(*workers: int) -> Target:
    ranges = ranges_of(owned_by(*workers))
    return Target(shards=SHARDS, policy=FixedPart(shards=SHARDS), members=workers, ranges=ranges)


def change(number: int = 1, epoch: int = 0, workers: tuple[int, ...] = (0,)) -> LayoutIntent:
    return LayoutIntent(epoch=epoch, change=number, mode="live", target=target(*workers), asked=None)


def turn(number: int = 1, epoch: int = 0, workers: tuple[int, ...] = (0, 1)) -> LayoutTurn:
    return LayoutTurn(epoch=epoch, change=number, target=target(*workers), reason="reverse", asked=None)


def stored(version: VersionId, epoch: int = 0, workers: tuple[int, ...] = (0, 1)) -> CheckpointStored:
    return CheckpointStored(epoch=epoch, version=version, placed=placed(*workers), manifest="m.json", digest="0f" * 16)


def restored(number: int, epoch: int = 0, workers: tuple[int, ...] = (0, 1)) -> LayoutRecord:
    """A start has gone back to the owners of the stored version."""
    return layout(number, epoch, workers).model_copy(update={"outcome": "restored"})


def auto(least: int = 1, most: int = 4, epoch: int = 0) -> LayoutAuto:
    """From here on Stepwell chooses the number of workers, as the command has asked."""
    return LayoutAuto(epoch=epoch, bounds=AutoBounds(min=least, max=most), asked=None)


def origin(version: VersionId) -> Origin:
    return Origin(pipeline="o", log_id="l", generation=2, epoch=1, version=version, manifest="o.json", digest="f0" * 16)


def copied(claim: Claim, version: VersionId) -> Copied:
    """What a copy's log begins with, after its claim."""
    revision = RevisionRecord(epoch=claim.epoch, number=4, plan="0f" * 32, step=version.step)
    state = StepLogState(
        "log",
        claim=claim,
        divisions=Numbered(version.step),
        step_records=Numbered(version.step),
        checkpoints=(version,),
        placed={version: placed(0, 1)},
        layout=layout(epoch=claim.epoch),
        revisions=RevisionState(root=revision, in_force=revision),
        stored=stored(version, epoch=claim.epoch),
        origin=origin(version),
    )
    return Copied(epoch=claim.epoch, state=state.snapshot())
