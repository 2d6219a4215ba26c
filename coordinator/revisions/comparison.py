"""Two plan documents, compared: what the plans of sources, views and outputs are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

from coordinator.revisions.carrying import carried_tables, new_columns, tables_read_otherwise
from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.first_difference import Differences
from coordinator.revisions.leaf_differences import between
from coordinator.revisions.leaves import former_sources, leaves_of, named_project
from coordinator.revisions.node_words import NodeWords
from coordinator.revisions.plan_parts import PlanRefusal, RefusalCode
from coordinator.revisions.rereadable import REFRESH, Obstacle, Rereading, Unreadable, messages_of, rereadings
from coordinator.specification import InputTopic
from engine.analysis.comparing import ChosenOutputs
from engine.analysis.contradictions import contradictions
from engine.analysis.definitions import definition_of
from engine.analysis.history import (
    OF_NO_SOURCE,
    Carry,
    Feed,
    Histories,
    NoHistory,
    Reread,
    Take,
    Young,
    content_now,
    histories,
    takes_within,
    twins_of,
)
from engine.analysis.history import (
    leaves_of as rows_begin_at,
)
from engine.analysis.history_inputs import CannotFill
from engine.analysis.marking import sources_below
from engine.analysis.project_match import ProjectMatch, match_projects, nodes_with_state
from engine.model.circuit import Output, View
from engine.model.filling import OF_FORMER, handle_of_project
from engine.model.from_now import handle_of_files
from engine.model.rows import Source, Union
from engine.operators.table import operator_of
from io_kafka.step_log.leaves import SourceLeaf

_CODES: Mapping[Obstacle, RefusalCode] = {
    "expired": "expired_input",
    "compacted": "compacted_input",
    "grown": "grown_input",
    "unknown start": "unknown_start",
    "missing topic": "missing_topic",
    "remade": "remade_topic",
    "frozen": "former_result",
    "nulls": "filled_with_nulls",
}


@dataclass(frozen=True)
class Needed:
    """What a view or a table needs: the `readings` of sources, and the nodes whose state gives rows, by their previous indices."""

    texts: tuple[str, ...]
    readings: tuple[Rereading, ...]
    holders: frozenset[int]
    obstacles: tuple[tuple[str, Unreadable], ...]

    @property
    def handles(self) -> frozenset[str]:
        """The handles of the sources whose messages are needed."""
        return frozenset(each.handle for each in self.readings) | {handle for handle, _ in self.obstacles}

    def with_more(self, other: Needed) -> Needed:
        return Needed(
            self.texts + other.texts,
            self.readings + other.readings,
            self.holders | other.holders,
            self.obstacles + other.obstacles,
        )


def _former_result(why: str) -> Unreadable:
    return Unreadable("frozen", f"{why}, so it cannot be told what the view was", REFRESH)


class Comparison:
    """What differs between two projects, and what the next one needs for it. `before` and `now`: the documents. `found`: which nodes are kept.
    `former_sources`: what each source was, by its handle now. `differences`: of each source that both have, by handle. `chosen`: by the user
    (chosen_comparison.py).
    `read_by`: of the kept nodes that are rebuilt for new readers, by which nodes they are read (contradictions.py).
    `rebuilds_for_readers`: whether there are any."""

    def __init__(
        self,
        before: PlanDocument,
        now: PlanDocument,
        facts: PlanFacts,
        chosen: Chosen = NOTHING_CHOSEN,
        *,
        rebuilds_for_readers: bool = True,
    ) -> None:
        self.before, self.now, self.facts, self.chosen = before, now, facts, chosen
        self.former_sources = former_sources(now.inputs, before.inputs)
        leaves_before, is_now = leaves_of(before), leaves_of(now)
        self.sources_before = {leaf.handle: leaf for leaf in leaves_before.sources}
        self.sources_now = {leaf.handle: leaf for leaf in is_now.sources}
        former = {handle: self.sources_before.get(handle, self._of_files(handle)) for handle in self.sources_now}
        self.differences: dict[str, tuple[str, ...]] = {
            handle: tuple(between(was, self.sources_now[handle])) for handle, was in former.items() if was is not None
        }
        self.topics_before = {leaf.topic: leaf.handle for leaf in leaves_before.outputs}
        self.topics_now = {leaf.handle: leaf.topic for leaf in is_now.outputs}
        self.words, self.words_before = NodeWords(now), NodeWords(before)
        self.readings, self.unreadable = rereadings(before, now, facts)
        self.chosen_outputs = ChosenOutputs(
            from_switch=frozenset(map(self.output_of, chosen.append_from_now)),
            taken_back=frozenset(map(self.dropped_output_of, chosen.retract)),
        )
        self.read_by: dict[int, frozenset[int]] = {}
        self._match()
        while rebuilds_for_readers and (read_by := contradictions(self.found, self.histories)):
            self.read_by |= read_by
            self._match()
        self.reasons = Differences(
            self.found,
            self.words_before,
            self.words,
            of_sources=self.differences,
            frozen=before.frozen,
            read_by=self.readers_rebuilt_for,
        )

    def _match(self) -> None:
        """Finds what is kept, and what the others are filled with."""
        read_otherwise = tables_read_otherwise(self.now.inputs, self.former_sources, self.chosen.from_now)
        self.found: ProjectMatch = match_projects(
            named_project(self.before), named_project(self.now), read_otherwise, self.read_by
        )
        self.histories: Histories = histories(
            self.found,
            self._why_not(self.unreadable),
            self.new_outputs(),
            frozenset(self._passing()),
            carried=carried_tables(self.found, self.now.inputs, self.former_sources, self.chosen.from_now),
        )

    def readers_rebuilt_for(self, nodes: Iterable[int]) -> list[str]:
        """What reads these nodes for the first time, so that they are rebuilt: views, and topics of outputs."""
        return sorted({self._reader_name(reader) for node in nodes for reader in self.read_by.get(node, ())})

    def _reader_name(self, reader: int) -> str:
        node = self.now.circuit.nodes[reader]
        if isinstance(node, Output):
            return f"topic {self.topics_now[node.handle]}"
        return next(name for name, view in self.views.items() if reader in self.members(view))

    def _of_files(self, handle: str) -> SourceLeaf | None:
        """The source that views counted whole and count from now on."""
        return self.sources_before.get(handle_of_files(handle))

    @staticmethod
    def _why_not(unreadable: Mapping[str, Unreadable]) -> dict[str, str]:
        return {handle: each.reason for handle, each in unreadable.items()}

    # views

    @cached_property
    def views(self) -> Mapping[str, int]:
        """The indices of the views now, by name."""
        return self.now.circuit.views

    @cached_property
    def views_before(self) -> Mapping[str, int]:
        return self.before.circuit.views

    def previous(self, name: str) -> int | None:
        """The previous index of a view, by its name now; None if it is new."""
        return self.views_before.get(self.found.ids.leaves[name])

    def is_changed(self, name: str) -> bool:
        return self.previous(name) is not None and self.found.is_young(self.views[name])

    @cached_property
    def receiving(self) -> frozenset[int]:
        """The nodes that what differs in a changed view reaches in the step of the switch, through a kept node. What is filled with the new
        content of the changed view does not receive it."""
        receiving = set[int]()
        for index, node in enumerate(self.now.circuit.nodes):
            takes = self.histories.of.get(index)
            if index in self.found.kept:
                is_reached = index in self.found.disturbed
            elif takes is None:
                is_reached = not receiving.isdisjoint(node.inputs)
            else:
                read = (part.node for part in takes_within(takes) if isinstance(part, Feed | Young))
                is_reached = not receiving.isdisjoint(read)
            if is_reached:
                receiving.add(index)
        return frozenset(receiving)

    def members(self, view: int) -> tuple[int, ...]:
        """The nodes of a view's definition, and the view."""
        return (*definition_of(self.now.circuit, view).nodes, view)

    def nodes_lost(self, previous: int) -> tuple[int, ...]:
        """The nodes of a previous definition that are not kept, by their previous indices."""
        kept = self._kept_before
        return tuple(i for i in (*definition_of(self.before.circuit, previous).nodes, previous) if i not in kept)

    @cached_property
    def _kept_before(self) -> frozenset[int]:
        return frozenset(self.found.kept.values())

    @cached_property
    def with_state(self) -> frozenset[int]:
        return frozenset(nodes_with_state(self.now.circuit))

    @cached_property
    def with_state_before(self) -> frozenset[int]:
        return frozenset(nodes_with_state(self.before.circuit))

    def gains_flows_only(self, name: str) -> bool:
        """Whether a changed view has all that it had, and more flows or parts of a UNION ALL beside them."""
        previous = self.previous(name)
        assert previous is not None
        had = self._flows(self.before, previous)
        has = [self.found.kept.get(index) for index in self._flows(self.now, self.views[name])]
        return len(had) < len(has) and all(had.count(index) <= has.count(index) for index in had)

    @staticmethod
    def _flows(document: PlanDocument, view: int) -> tuple[int, ...]:
        nodes = document.circuit.nodes
        (below,) = nodes[view].inputs
        node = nodes[below]
        return node.inputs if isinstance(node, Union) else (below,)

    def reads_event_time(self, view: int) -> bool:
        """Whether young nodes of the view follow a watermark."""
        nodes = self.now.circuit.nodes
        return any(operator_of(nodes[i]).growth.is_needed for i in self.members(view) if self.found.is_young(i))

    def is_unrecoverable(self, name: str) -> bool:
        """Whether nothing tells what a view was, because it follows a watermark and nothing stores it."""
        return self.found.ids.leaves[name] in self.found.unrecoverable

    # outputs

    @cached_property
    def outputs(self) -> Mapping[str, int]:
        return self.now.circuit.outputs

    @cached_property
    def outputs_before(self) -> Mapping[str, int]:
        return self.before.circuit.outputs

    def new_outputs(self) -> frozenset[int]:
        """The Outputs that get all content of their view, because the previous project does not write their topic."""
        new = (i for handle, i in self.outputs.items() if self.topics_now[handle] not in self.topics_before)
        return frozenset(new) - self.chosen_outputs.from_switch

    def output_of(self, name: str) -> int:
        """`name`: of the output or of its topic."""
        return next(i for handle, i in self.outputs.items() if name in (handle, self.topics_now[handle]))

    @cached_property
    def outputs_dropped(self) -> dict[str, str]:
        """The outputs of the previous project whose topics nothing writes now: the topic of each, by handle."""
        written = set(self.topics_now.values())
        return {handle: topic for topic, handle in self.topics_before.items() if topic not in written}

    def dropped_output_of(self, name: str) -> int:
        """Returns the previous index of a dropped output. `name`: of the output or of its topic."""
        handle = next(handle for handle, topic in self.outputs_dropped.items() if name in (handle, topic))
        return self.outputs_before[handle]

    def needed_to_take_back(self, output: int) -> Needed:
        """What tells the content that an output of the previous project has. `output`: its previous index."""
        (view,) = self.before.circuit.nodes[output].inputs
        return self.needed_by((), view)

    def _passing(self) -> Iterator[int]:
        """The young views that hold no content and whose readers want only what comes from the switch on. A source that the pipeline does not
        read yet would begin with its past messages in the step of the switch, so a view over one is filled."""
        nodes = self.now.circuit.nodes
        for name, index in self.views.items():
            node = nodes[index]
            if isinstance(node, View) and not node.kept and self.found.is_young(index):
                readers = frozenset(self._readers_of(index))
                if readers and readers <= self.chosen_outputs.from_switch and not self._has_new_sources(name):
                    yield index

    def _has_new_sources(self, view: str) -> bool:
        return any(
            handle in self.readings and self.readings[handle].is_new for handle in sources_below(self.now.circuit, view)
        )

    def _readers_of(self, index: int) -> Iterator[int]:
        return (i for i, node in enumerate(self.now.circuit.nodes) if index in node.inputs)

    def needs_old_content(self, name: str) -> bool:
        """Whether a changed view has to be compared with what it was, and nothing has kept that."""
        previous = self.previous(name)
        assert previous is not None
        old = self.before.circuit.nodes[previous]
        assert isinstance(old, View)
        if (old.kept and not self._is_lost(previous)) or self.gains_flows_only(name):
            return False
        readers = self._readers_of(self.views[name])
        return any(
            i in self.found.kept or (i in self.outputs.values() and i not in self.new_outputs())
            for i in readers
            if i not in self.chosen_outputs.from_switch
        )

    def _is_lost(self, old_view: int) -> bool:
        """Whether what the view was is not stored, and this release would compute it in another way."""
        if not self.before.frozen:
            return False
        return isinstance(content_now(self.before.circuit, old_view, {}, self.before.frozen), NoHistory)

    # histories

    def needed_by(self, members: Iterable[int], old_view: int | None = None) -> Needed:
        """What these nodes take, of those that need a history. `old_view`: the previous index of a view that is computed once more as it was."""
        takes = [take for index in members for take in self.histories.of.get(index, ())]
        tables = [each.node for each in takes_within(takes) if isinstance(each, Young) and each.node in self._tables]
        takes += [take for index in tables for take in self.histories.of[index]]
        needed = self._collect(takes, self.words, self.readings, self.unreadable)
        return needed if old_view is None else self._with_what_it_was(needed, old_view)

    def _with_what_it_was(self, needed: Needed, old_view: int) -> Needed:
        """What is needed, and what the view took as it was."""
        was = self._collect([self.take_before(old_view)], self.words_before, *self.readings_before)
        lacking = {
            handle: replace(
                each, way_out=self._way_out_of_old_content(old_view, is_of_messages=each.obstacle != "frozen")
            )
            for handle, each in was.obstacles
        }
        texts = (*needed.texts, "what it was is computed once more, to be compared")
        return Needed(
            (*texts, *(text for text in was.texts if text not in texts)),
            (*needed.readings, *(reading for reading in was.readings if reading not in needed.readings)),
            needed.holders | was.holders,
            # What helps against both helps against this one first.
            (*(each for each in needed.obstacles if each[0] not in lacking), *lacking.items()),
        )

    def _way_out_of_old_content(self, old_view: int, *, is_of_messages: bool) -> str:
        """What helps if it cannot be told what a view was. `is_of_messages`: because messages are gone."""
        name = next((name for name in self.views if self.previous(name) == old_view), None)
        if name is None:
            return "Leave --retract out: the topic and its rows then stay"
        outputs = [
            node for i in self._readers_of(self.views[name]) if isinstance(node := self.now.circuit.nodes[i], Output)
        ]
        appends = [f"`--append {node.handle}=from-now`" for node in outputs if node.mode == "append"]
        if outputs and len(appends) == len(outputs):
            return (
                f"{' '.join(appends)}: what it was is then not needed; or give the output another topic; or {REFRESH}"
            )
        restore = "Restore the messages; or " if is_of_messages else ""
        return f"What it was is needed to tell what differs. {restore or 'Give the output another topic; or '}{REFRESH}"

    def take_before(self, view: int) -> Take:
        """Where the content of a view of the previous project is. `view`: its previous index."""
        return content_now(self.before.circuit, view, self._why_not(self.readings_before[1]), self.before.frozen)

    @cached_property
    def readings_before(self) -> tuple[dict[str, Rereading], dict[str, Unreadable]]:
        return rereadings(self.before, self.before, self.facts)

    @cached_property
    def _tables(self) -> frozenset[int]:
        """The nodes that need a history and belong to no definition: the tables of keyed sources."""
        return frozenset(i for i in self.histories.of if self.now.circuit.nodes[i].kind == "LastByKey")

    def _collect(
        self,
        takes: Sequence[Take],
        words: NodeWords,
        able: Mapping[str, Rereading],
        unable: Mapping[str, Unreadable],
    ) -> Needed:
        texts: list[str] = []
        readings: list[Rereading] = []
        holders: set[int] = set()
        obstacles: list[tuple[str, Unreadable]] = []
        nodes = words.document.circuit.nodes
        for take in takes_within(takes):
            node = nodes[take.node]
            if isinstance(take, Young) and isinstance(node, View):
                texts.append(f"{node.name}: as it is filled")
        for leaf in rows_begin_at(takes):
            match leaf:
                case Feed(node=index, holder=holder):
                    kept = self.before.circuit.nodes[holder]
                    texts.append(f"{kept.name if isinstance(kept, View) else words.title(index)}: state")
                    holders.add(holder)
                case Reread(handle=handle):
                    texts.append(able[handle].text)
                    readings.append(able[handle])
                case Carry(node=index, holder=holder):
                    texts.append(self._carried_text(index))
                    holders.add(holder)
                case NoHistory(reasons=reasons):
                    obstacles += [(handle, unable[handle]) for handle, _ in reasons if handle in unable]
                    obstacles += [(handle, _former_result(why)) for handle, why in reasons if handle == OF_NO_SOURCE]
                case _:
                    assert_never(leaf)
        texts += [f"{words.title(twin.node)}: computed once more" for twin in twins_of(takes)]
        return Needed(tuple(dict.fromkeys(texts)), tuple(readings), frozenset(holders), tuple(dict.fromkeys(obstacles)))

    def _carried_text(self, source: int) -> str:
        node = self.now.circuit.nodes[source]
        assert isinstance(node, Source)
        table = next(each for each in self.now.inputs if each.table.handle == node.handle)
        nulls = ", ".join(new_columns(table, self.former_sources[node.handle]))
        return f"the table of {node.handle}: state" + (f", with NULL in {nulls}" if nulls else "")

    def source_read_again(self, handle: str) -> tuple[InputTopic, Rereading]:
        """`handle`: as the transition calls it (engine/model/filling.py). The source as its project has it, and how it is read. Raises
        CannotFill if it cannot be."""
        name, is_former = handle_of_project(handle), handle.startswith(OF_FORMER)
        able, unable = self.readings_before if is_former else (self.readings, self.unreadable)
        if name not in able:
            raise CannotFill(f"{name}: {unable[name].reason}")
        inputs = self.before.inputs if is_former else self.now.inputs
        return next(source for source in inputs if source.table.handle == name), able[name]

    def rows_of(self, needed: Needed) -> int | None:
        """How many messages and rows of state that is at most; None if it is not known."""
        counts = [messages_of(needed.readings, self.facts), *map(self.rows_held_by, needed.holders)]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def rows_held_by(self, holder: int) -> int | None:
        """How many rows the state of a node has; None if nobody has counted them. `holder`: its previous index."""
        return (self.facts.rows or {}).get(self.before.numbers[holder])

    def refusals_of(self, needed: Needed, subject: str, place: str) -> tuple[PlanRefusal, ...]:
        return tuple(
            PlanRefusal(
                _CODES[each.obstacle],
                subject,
                place,
                reason=f"{handle}: {each.reason}" if handle else each.reason,
                way_out=each.way_out,
                partitions=each.partitions,
            )
            for handle, each in needed.obstacles
        )
