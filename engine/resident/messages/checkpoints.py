"""Checkpoints, and reads of the last one."""

from __future__ import annotations

from base.slots import SlotSet
from base.version import VersionId
from engine.resident.messages.message import Answer, BackgroundOrder, Notice, Order


class LayerFrozen(Answer):
    version: VersionId


class FreezeLayer(Order[LayerFrozen]):
    """Sets the changes since the last version aside, as the version that is named. `in_error`: the views that have no answer in the version;
    None if they are those of the previous version."""

    version: VersionId
    in_error: tuple[str, ...] | None


class LayerFolded(Answer):
    """The versions that the database can open now, and its sizes in bytes: live state by table, and disk space by layer. `free_bytes`: on the
    disk."""

    versions: tuple[VersionId, ...]
    table_bytes: dict[int, int]
    disk_bytes: dict[str, int]
    free_bytes: int


class FoldLayer(BackgroundOrder[LayerFolded]):
    """Begins a fold, which runs in the background. `LayerFolded` or `Failed` answers when it is over. `may_rewrite`: whether the file may be
    rewritten after it, if much of it is free."""

    may_rewrite: bool


class ExpediteFold(Notice):
    """The fold under way does nothing more than it must, because something waits for it. The notice has no answer."""


class Contents(Answer):
    """The frame's buffers are the worker's rows of the views that were asked for, in that order. `owned`: the worker's slots in the version."""

    version: VersionId
    owned: SlotSet


class Read(BackgroundOrder[Contents]):
    """Reads what kept views hold as of the last complete checkpoint, in the background. `Contents` or `Failed` answers. `revision`: the one
    whose views they are. `checks_errors`: as in `read_views`."""

    revision: int
    checks_errors: bool
    views: tuple[str, ...]
