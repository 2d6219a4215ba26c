"""A resolved project -> one circuit, or every reason why there is none.

Guarantees: the circuit is a function of the plans, the declarations of sources and outputs, and the names of views.
Another session, other expression ids or another order of files give the same circuit. Views are lowered in the order
of their names, but each after those that it reads. Sources and sub-plans that several views share occur once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from base.text.type_names import sql_type
from engine.model.circuit import Circuit, Output, View
from engine.model.rows import Constant, LastByKey, Source
from io_kafka.formats.message_fields import MESSAGE_TYPES
from io_kafka.formats.written import Written
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import VOID, UnsupportedType, arrow_schema, arrow_type
from stepwell.errors import OwnMistake, ProjectError, UnsupportedError, raise_all
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.passes import optimise
from stepwell.lowering.relation import Relation
from stepwell.lowering.retractions import append_refusals, watermark_refusals
from stepwell.lowering.rules import RULES
from stepwell.lowering.rules.constant import constant
from stepwell.lowering.rules.union import unite
from stepwell.planning.plans import FlowPlan, ResolvedProject, ResolvedView


@dataclass
class Lowered:
    """What became of a project that was lowered. `circuit` holds what could be lowered. It may be run only if `errors` is empty. `notes` are by
    view, and are for `dry-run`."""

    circuit: Circuit
    errors: list[ProjectError] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)


def lower(project: ResolvedProject) -> Circuit:
    """The project's circuit. Raises UnsupportedError or ProjectErrors with everything that is not supported."""
    lowered = lower_with_errors(project)
    raise_all(lowered.errors)
    return lowered.circuit


def lower_with_errors(project: ResolvedProject) -> Lowered:
    """Lowers like `lower`, but returns all errors with what could be lowered, and raises none. For `dry-run`."""
    driver = _Driver(project)
    for name in sorted(driver.views):
        driver.lower_view(name)
    lowered = Lowered(driver.builder.circuit(), driver.errors, driver.notes)
    try:
        lowered.circuit = optimise(lowered.circuit)
    except Exception as error:  # a bug in Stepwell; what was found before it is still shown
        lowered.errors.append(OwnMistake.of(error, None, None))
    for handle, reason in append_refusals(lowered.circuit).items():
        view = driver.outputs[handle]
        lowered.errors.append(
            UnsupportedError(
                f"an append output cannot take rows back, and this view can: {reason}",
                "Write 'mode' = 'upsert' with a key, or 'mode' = 'changelog'",
                view=view.name,
                location=view.location,
            )
        )
    for name, reason in watermark_refusals(lowered.circuit).items():
        lowered.errors.append(
            UnsupportedError(
                f"withWatermark over rows that can be taken back is not supported, and these can: {reason}",
                "Leave withWatermark out, and the view follows its input; or read a table that only grows",
                view=name,
                location=driver.views[name].location,
            )
        )
    lowered.errors.sort(key=lambda error: (str(error.location), error.view or ""))
    return lowered


def _output(view: ResolvedView, boundary: int) -> Output:
    """The node that writes the view at `boundary`, which has an output."""
    assert view.output is not None
    output, written, columns = view.output, view.output.written, tuple(view.schema.names)
    return Output(
        (boundary,),
        (),
        handle=output.handle,
        mode=output.mode,
        names=columns,
        key=tuple(columns.index(column) for column in output.key),
        written=Written(written.name, written.key_format, written.options, written.patterns),
    )


class _Driver:
    def __init__(self, project: ResolvedProject) -> None:
        self.builder = CircuitBuilder()
        self.views = {view.name: view for view in project.views}
        self.sources = {source.handle: source for source in project.sources}
        self.outputs: dict[str, ResolvedView] = {}
        self.errors: list[ProjectError] = []
        self.notes: dict[str, list[str]] = {}
        self._nodes: dict[str, int] = {}
        self._under_way: list[str] = []  # the views that are being lowered, outermost first

    def lower_view(self, name: str) -> int:
        """Returns the View node of `name`, which is lowered on first use."""
        if name not in self._nodes:
            assert name not in self._under_way, f"a cycle of views got past the front end: {[*self._under_way, name]}"
            self._under_way.append(name)
            self._nodes[name] = self._lower(self.views[name])
            self._under_way.pop()
        return self._nodes[name]

    def leaf(self, node: TreeNode) -> int:
        """The node with the rows of a leaf. They are written in the definition, or come from a source or a view."""
        if node.kind == "LocalRelation":
            return self.builder.add(constant(node["data"]))
        name: str = node["rdd"]
        return self.source(name) if name in self.sources else self.lower_view(name)

    def source(self, handle: str) -> int:
        spec = self.sources[handle]
        schema = arrow_schema(spec.schema)
        types = tuple(schema.types)
        padded = tuple(f"{limit.place} {limit.declared}" for limit in spec.limits if limit.padded)
        if not spec.key:
            retracts = spec.mode == "changelog"
            return self.builder.add(
                Source((), types, handle, retracts=retracts, padded=padded, unavailable=spec.unavailable)
            )
        messages = self.builder.add(
            Source((), types + MESSAGE_TYPES, handle, keyed=True, padded=padded, unavailable=spec.unavailable)
        )
        key = tuple(schema.names.index(column) for column in spec.key)
        return self.builder.add(LastByKey((messages,), types, handle, key, spec.unavailable))

    def _lower(self, view: ResolvedView) -> int:
        columns, types = tuple(view.schema.names), self._types(view)
        try:
            node = self._content(view, types)
        except Exception as error:  # a bug in Stepwell that affects this view; the other views are still lowered
            self.errors.append(OwnMistake.of(error, view.name, view.location))
            node = self._stand_in(types)
        output = view.output
        kept = output is None or output.mode != "append"
        key = tuple(columns.index(column) for column in view.key) if kept else ()
        boundary = self.builder.add(View((node,), types, name=view.name, names=columns, kept=kept, key=key))
        if output:
            self.outputs[output.handle] = view
            self.builder.add(_output(view, boundary))
        return boundary

    def _types(self, view: ResolvedView) -> tuple[pa.DataType, ...]:
        """The types of the view's columns, with null in place of a type that is not supported."""
        types: list[pa.DataType] = []
        for column in view.schema.fields:
            plain = column.jsonValue()["type"]
            try:
                types.append(arrow_type(plain))
            except UnsupportedType as error:
                types.append(pa.null())
                name = column.dataType.simpleString() if isinstance(plain, dict) and error.name == VOID else error.name
                self.errors.append(
                    UnsupportedError(
                        f"column {column.name} has the type {name}, which is not supported",
                        f"CAST({column.name} AS a supported type), or leave the column out.",
                        view=view.name,
                        location=view.location,
                    )
                )
        return tuple(types)

    def _stand_in(self, types: tuple[pa.DataType, ...]) -> int:
        """A node in place of a content that was refused, so that the views that read it can be lowered."""
        return self.builder.add(Constant((), types, b""))

    def _content(self, view: ResolvedView, types: tuple[pa.DataType, ...]) -> int:
        """The node with the rows of all flows, or a stand-in if a flow was refused."""
        contexts: list[Lowering] = []
        relations: list[Relation] = []
        for flow in view.flows:
            context = Lowering(
                flow.tree,
                flow.analysed,
                self.builder,
                RULES,
                self.leaf,
                event_times=flow.event_times,
            )
            try:
                relations.append(self._flow(context, flow, types))
            except Exception:
                if not context.refusals:
                    raise
                # What is refused has the type null from there on, with which a rule above may fail. The refusal is what the user has to know.
            contexts.append(context)
            self.errors.extend(refusal.with_location(view.name, flow.location) for refusal in context.refusals)
            of_sources = [note for leaf in flow.leaves if leaf in self.sources for note in self.sources[leaf].notes]
            self.notes.setdefault(view.name, []).extend(of_sources + ([] if flow.is_made else context.notes))
        if any(context.refusals for context in contexts) or pa.null() in types:
            return self._stand_in(types)
        return unite(contexts[0], relations).node

    def _flow(self, context: Lowering, flow: FlowPlan, types: tuple[pa.DataType, ...]) -> Relation:
        relation = context.lower_whole(context.plan)
        found = context.builder.types(relation.node)
        if found != types and pa.null() not in types and not context.refusals:
            context.refuse(
                UnsupportedPlan(
                    flow.tree.kind,
                    f"the query gives types {', '.join(map(sql_type, found))}; declared are {', '.join(map(sql_type, types))}",
                    "Cast the query's columns to the declared types",
                )
            )
        return relation
