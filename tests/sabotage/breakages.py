"""The breakages, by what they break; a new one is an entry in one of the lists."""

from __future__ import annotations

from tests.sabotage.apply_breakages import APPLIED
from tests.sabotage.automatic_breakages import AUTOMATIC_LAYOUTS
from tests.sabotage.breakage import Breakage
from tests.sabotage.choice_breakages import CHOICES
from tests.sabotage.clock_breakages import THE_CLOCK
from tests.sabotage.column_breakages import COLUMNS
from tests.sabotage.connection_breakages import CONNECTION_BREAKAGES
from tests.sabotage.coordinator_breakages import COORDINATOR
from tests.sabotage.copying_breakages import COPIES
from tests.sabotage.debezium_breakages import DEBEZIUM
from tests.sabotage.definition_breakages import DEFINED
from tests.sabotage.doctor_breakages import DOCTOR
from tests.sabotage.draining_breakages import DRAINED
from tests.sabotage.engine_breakages import ENGINE
from tests.sabotage.error_breakages import ERRORS
from tests.sabotage.event_time_breakages import EVENT_TIME
from tests.sabotage.evolution_breakages import EVOLUTION
from tests.sabotage.fault_breakages import FAULTS
from tests.sabotage.filling_breakages import FILLING
from tests.sabotage.format_breakages import FORMATS
from tests.sabotage.front_end_breakages import FRONT_END
from tests.sabotage.function_breakages import FUNCTIONS
from tests.sabotage.generate_breakages import GENERATED
from tests.sabotage.guide_breakages import GUIDES
from tests.sabotage.kafka_breakages import KAFKA
from tests.sabotage.layout_breakages import LAYOUT
from tests.sabotage.loading_breakages import LOADED
from tests.sabotage.metric_breakages import MONITORED
from tests.sabotage.packaging_breakages import PACKED
from tests.sabotage.plan_breakages import PLANS
from tests.sabotage.project_breakages import PROJECT_BREAKAGES
from tests.sabotage.protocol_breakages import MIGRATION
from tests.sabotage.python_breakages import PYTHON
from tests.sabotage.query_breakages import QUERIES
from tests.sabotage.random_breakages import COMBINATIONS
from tests.sabotage.reader_breakages import READERS
from tests.sabotage.recursion_breakages import RECURSIONS
from tests.sabotage.registry_breakages import REGISTRIES
from tests.sabotage.release_breakages import RELEASES
from tests.sabotage.reread_breakages import REREAD
from tests.sabotage.secret_breakages import SECRETS_AND_LOGS
from tests.sabotage.storage_breakages import STORAGE
from tests.sabotage.store_breakages import CHECKPOINT_STORE
from tests.sabotage.storing_breakages import STORING_OF_RUNS
from tests.sabotage.table_breakages import TABLE_BREAKAGES
from tests.sabotage.text_breakages import TEXT
from tests.sabotage.tls_breakages import TLS
from tests.sabotage.top_k_breakages import TOP_K_BREAKAGES
from tests.sabotage.transition_passage_breakages import TRANSITION_PASSAGES
from tests.sabotage.transition_record_breakages import TRANSITION_RECORDS
from tests.sabotage.transition_run_breakages import TRANSITION_RUNS
from tests.sabotage.type_breakages import TYPES
from tests.sabotage.variant_breakages import VARIANTS
from tests.sabotage.window_breakages import WINDOWS

BREAKAGES: tuple[Breakage, ...] = (
    *COORDINATOR,
    *LAYOUT,
    *MIGRATION,
    *KAFKA,
    *CONNECTION_BREAKAGES,
    *TLS,
    *READERS,
    *SECRETS_AND_LOGS,
    *GUIDES,
    *DOCTOR,
    *TABLE_BREAKAGES,
    *PROJECT_BREAKAGES,
    *FORMATS,
    *REGISTRIES,
    *DEBEZIUM,
    *ENGINE,
    *ERRORS,
    *FAULTS,
    *GENERATED,
    *PYTHON,
    *FRONT_END,
    *DEFINED,
    *TEXT,
    *STORAGE,
    *CHECKPOINT_STORE,
    *STORING_OF_RUNS,
    *AUTOMATIC_LAYOUTS,
    *COPIES,
    *TOP_K_BREAKAGES,
    *FUNCTIONS,
    *TYPES,
    *VARIANTS,
    *RECURSIONS,
    *WINDOWS,
    *EVENT_TIME,
    *THE_CLOCK,
    *COLUMNS,
    *EVOLUTION,
    *PLANS,
    *RELEASES,
    *APPLIED,
    *FILLING,
    *TRANSITION_RECORDS,
    *CHOICES,
    *REREAD,
    *LOADED,
    *TRANSITION_RUNS,
    *PACKED,
    *TRANSITION_PASSAGES,
    *DRAINED,
    *QUERIES,
    *COMBINATIONS,
    *MONITORED,
)
