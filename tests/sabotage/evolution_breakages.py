"""Mistakes in what a changed project keeps of the previous one."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

IDENTITY, TRANSITION = "engine/analysis/identity.py", "engine/analysis/transition.py"
TEST_IDENTITY = "tests/engine/test_identity.py"
DOCUMENT, TEST_DOCUMENT = "engine/run/plan_document.py", "tests/engine/test_plan_document.py"
KEPT_STATE = "state is kept exactly if it is what the new project would have"


def edit(name: str) -> str:
    return f"tests/stepwell/test_transition.py::test_what_an_edit_keeps[{name}]"


EVOLUTION = (
    Breakage(
        "identity-without-growth",
        "Whether an input only grows is no part of a node's identity, so an accumulator of a maximum is kept where rows are taken back.",
        KEPT_STATE,
        (Edit(IDENTITY, "return [grows, self._colocation[index]]", "return [self._colocation[index]]"),),
        (edit("a view that only grew takes rows back: a maximum over it has to keep all values"),),
    ),
    Breakage(
        "identity-without-placement",
        "By which columns rows lie is no part of a node's identity, so state is kept on workers that do not get its rows any more.",
        KEPT_STATE,
        (Edit(IDENTITY, "return [grows, self._colocation[index]]", "return [grows]"),),
        (edit("a view whose rows lie elsewhere, and a reader that had no need to exchange them"),),
    ),
    Breakage(
        "identity-without-topic",
        "A source is known by its columns alone, so the state of another topic is kept.",
        KEPT_STATE,
        (
            Edit(
                "coordinator/revisions/leaves.py",
                '{"handle": "", "columns": fixed}',
                '{"handle": "", "topics": (), "columns": fixed}',
            ),
        ),
        (edit("another topic of a source"),),
    ),
    Breakage(
        "identity-without-not-null",
        "That a column became NOT NULL is no part of a source's identity, although messages are malformed that were rows.",
        KEPT_STATE,
        (Edit("coordinator/revisions/leaves.py", "if not by_name or NOT_NULL in text", "if not by_name"),),
        (edit("a column that is NOT NULL"),),
    ),
    Breakage(
        "identity-without-revisions-of-functions",
        "A function that gives other results is taken for the previous one.",
        KEPT_STATE,
        (Edit(IDENTITY, "for text in _texts(plain_fields(node)) if", "for text in _texts(None) if"),),
        (f"{TEST_IDENTITY}::test_a_function_with_other_results_is_another_function",),
    ),
    Breakage(
        "identity-by-positions",
        "Readers of a leaf know its columns by their positions, so a column that is added rebuilds all of them.",
        "a nullable column keeps all state",
        (
            Edit(
                IDENTITY,
                "return _Rows(_hashed([node.kind, leaf.text]), (*leaf.columns, *more))",
                'return _Rows(_hashed([node.kind, leaf.text]), tuple(f"c{place}" for place, _ in enumerate((*leaf.columns, *more))))',
            ),
        ),
        (edit("a column at the front of a source"),),
    ),
    Breakage(
        "selections-are-not-seen-through",
        "A Map that only selects columns counts, so a join over a source is another one as soon as the source has a column that nobody reads.",
        "a nullable column keeps all state",
        (Edit(IDENTITY, "(selected := node.selected) is not None", "(selected := None) is not None"),),
        (edit("a column of a keyed source: its table is rebuilt, and its readers stay"),),
    ),
    Breakage(
        "growth-relied-on-behind-a-change",
        "A node that cannot take rows back is kept behind a view whose content changes.",
        KEPT_STATE,
        (
            Edit(
                TRANSITION,
                "below_kept and not relies_on_growth(node, grows[index], disturbed)",
                "below_kept",
            ),
        ),
        (edit("another filter below a maximum, which only grew"),),
    ),
    Breakage(
        "kept-over-a-young-node",
        "A node is kept although one below it in its view is rebuilt.",
        KEPT_STATE,
        (Edit(TRANSITION, "if index in pairs and below_kept and", "if index in pairs and"),),
        (edit("another filter below a maximum, which only grew"),),
    ),
    Breakage(
        "one-view-changes-another",
        "A pass counts the readers in all views, so a view that is added changes how another one is computed.",
        "a view that is added keeps all state",
        (
            Edit(
                "stepwell/lowering/eager_aggregation.py",
                "isinstance(below, Map) and len(definition.readers[at]) == 1",
                "isinstance(below, Map) and sum(node.inputs.count(at) for node in circuit.nodes) == 1",
            ),
        ),
        (edit("a view is added that has the join of another one"),),
    ),
    Breakage(
        "a-renamed-view-is-a-new-one",
        "A view is only known by its name.",
        "a renamed view keeps its state",
        (Edit(IDENTITY, "if self._previous[name] == definition), view.name)", "if False), view.name)"),),
        (
            edit("a view is renamed, and its output keeps its topic"),
            f"{TEST_IDENTITY}::test_views_are_paired_by_name_and_then_by_definition",
        ),
    ),
    Breakage(
        "one-state-for-two-nodes",
        "Two equal nodes are both paired with the first one.",
        KEPT_STATE,
        (Edit(IDENTITY, "waiting[identity].pop(0)", "waiting[identity][0]"),),
        (f"{TEST_IDENTITY}::test_two_sources_of_one_topic_have_one_state_each",),
    ),
    Breakage(
        "unknown-members-are-passed-over",
        "A plan document of a newer version is read without what this one does not know.",
        "a document is read whole or not at all",
        (Edit(DOCUMENT, "forbid_extra_keys=True", "forbid_extra_keys=False"),),
        (f"{TEST_DOCUMENT}::test_what_is_no_circuit_is_refused_with_the_reason",),
    ),
    Breakage(
        "passwords-in-documents",
        "The password of a registry is written into the plan document.",
        "no secret is stored",
        (Edit(DOCUMENT, "auth=override(omit=True)", "auth=override(omit=False)"),),
        (f"{TEST_DOCUMENT}::test_every_source_is_read_back_without_the_password_of_its_registry",),
    ),
    Breakage(
        "growth-that-is-not-claimed",
        "The descriptor of the first rows of an order does not say that its state lacks the other rows while its input only grows.",
        KEPT_STATE,
        (
            Edit(
                "engine/operators/top_k.py", "relies_on_growth=lambda node: True", "relies_on_growth=lambda node: False"
            ),
        ),
        ("tests/engine/test_descriptors.py::test_an_operator_that_does_not_rely_on_growth_can_take_rows_back",),
    ),
)
