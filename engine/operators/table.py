"""Which function runs which kind of node. A new operator is a module beside this one and a line here."""

from engine.model.circuit import (
    Aggregate,
    Constant,
    Deduplicate,
    Distinct,
    FinalAggregate,
    Join,
    JoinPartials,
    LastByKey,
    Map,
    Node,
    Output,
    PartialAggregate,
    SemiJoin,
    Union,
    View,
)  # fmt: skip
from engine.operators.aggregate import step_aggregate
from engine.operators.base import OperatorFunction
from engine.operators.distinct import step_deduplicate, step_distinct
from engine.operators.join import step_join
from engine.operators.last_by_key import step_last_by_key
from engine.operators.linear import step_constant, step_map, step_union
from engine.operators.output import step_output
from engine.operators.partials import step_final_aggregate, step_join_partials, step_partial_aggregate
from engine.operators.semi_join import step_semi_join
from engine.operators.view import step_view

TABLE: dict[type[Node], OperatorFunction] = {
    Aggregate: step_aggregate,
    Constant: step_constant,
    Deduplicate: step_deduplicate,
    Distinct: step_distinct,
    FinalAggregate: step_final_aggregate,
    Join: step_join,
    JoinPartials: step_join_partials,
    LastByKey: step_last_by_key,
    Map: step_map,
    Output: step_output,
    PartialAggregate: step_partial_aggregate,
    SemiJoin: step_semi_join,
    Union: step_union,
    View: step_view,
}
