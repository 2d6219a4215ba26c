"""Whether the circuit of a project is the one that its state belongs to, and which views and topics differ if not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import xxhash

from base.text.differences import difference_text as changed_property
from coordinator.starting.errors import CircuitChanged
from engine.model.circuit import Circuit
from io_kafka.formats.table import options_of_outputs


def check_same_circuit(circuit: Circuit, fingerprint: str, recorded: str) -> None:
    """Raises CircuitChanged, which names what differs, unless `circuit` has this fingerprint. `recorded` is the recorded circuit's JSON."""
    if fingerprint == circuit.fingerprint:
        return
    changed = changed_views(json.loads(recorded), json.loads(circuit.to_json()))
    raise CircuitChanged(
        f"the project is not the one that the state belongs to; what differs: {', '.join(changed)}.",
        "`stepwell plan` shows what the change would do, and `stepwell run --apply` makes it. `stepwell run --as-recorded` runs the project "
        "without the change. `stepwell run --full-refresh` rebuilds the state.",
    )


def changed_views(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    """The views, tables and outputs that differ in their own node or in any node below it. Of outputs also what the properties say."""

    def digests_by_name(nodes: list[dict[str, Any]]) -> dict[str, str]:
        digests: list[str] = []
        result: dict[str, str] = {}
        for node in nodes:
            text = json.dumps({**node, "inputs": [digests[i] for i in node["inputs"]]}, sort_keys=True)
            digests.append(xxhash.xxh3_128_hexdigest(text.encode()))
            if node["kind"] in ("View", "Output", "Source"):
                word = {"View": "view", "Output": "output", "Source": "source"}[node["kind"]]
                result[f"{word} {node.get('name') or node.get('handle')}"] = digests[-1]
        return result

    old, new = digests_by_name(before), digests_by_name(after)
    written, now = _write_options(before), _write_options(after)
    changed = [
        f"{name} ({'; '.join(_output_differences(written.get(name, {}), now.get(name, {}))) or 'changed'})"
        for name in new
        if name in old and old[name] != new[name]
    ]
    changed += [f"{name} (new)" for name in new if name not in old]
    changed += [f"{name} (gone)" for name in old if name not in new]
    return changed or ["the way Spark plans it (another version of Spark or of Stepwell)"]


def _write_options(nodes: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """How each output is written, by the names of its properties. The JSON form leaves out what has its default."""
    found: dict[str, dict[str, str]] = {}
    for node in nodes:
        if node["kind"] == "Output":
            found[f"output {node['handle']}"] = {
                "mode": node["mode"],
                "key": ", ".join(node["names"][column] for column in node["key"]),
                "format": node.get("format", "json"),
                "key.format": node.get("key_format") or "",
                **{option.name: node.get(option.recorded, option.usual) for option in options_of_outputs()},
                "columns": ", ".join(node["names"]),
            }
    return found


def _output_differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [changed_property(name, before[name], now[name]) for name in before if before[name] != now[name]]
