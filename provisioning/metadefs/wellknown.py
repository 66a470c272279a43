"""The built-in namespaces, read from ``built_in.json``: the namespaces of OpenStack that have an effect in Novella, and
Novella's own.

The file has the form of Glance's files of definitions. A launch's treatment of each property is appended to its
description here, because it follows from the code.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provisioning.common.values import guest_demands
from provisioning.common.values.guest_demands import FLAVOR, IMAGE, OFF, Demand, Effect

FILE = Path(__file__).with_name("built_in.json")
Schema = Mapping[str, Any]
Properties = Mapping[str, Schema]


@dataclass(frozen=True)
class Type:
    """An association of a built-in namespace with a resource type."""

    name: str
    prefix: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Group:
    """A group of properties that are set together; an object in the API."""

    name: str
    description: str
    properties: Properties


@dataclass(frozen=True)
class WellKnown:
    """A built-in namespace of metadata definitions, with the resource types that it is associated with."""

    name: str
    title: str
    description: str
    types: Sequence[Type]
    properties: Properties
    groups: Sequence[Group]


def words_of(demand: Demand) -> str:
    """Return the treatment of a demand by launches, which is appended to the description of its property."""
    if demand.effect == Effect.HONOURED:
        return "Honoured." if demand.hardware is None or not demand.readable else f"Honoured: {demand.readable}."
    if demand.effect == Effect.PLACED and demand.example.startswith("trait"):
        return "Only such hosts are chosen."
    if demand.effect == Effect.PLACED:
        free = " or ".join(each for each in demand.free if each != OFF) or ("false" if demand.free else "")
        but = f" With another value than {free} a launch" if free else " A launch with it"
        return f"No host of this cloud offers {demand.meaning}.{but} finds no valid host."
    if demand.effect == Effect.REFUSED:
        return "A launch with it is refused."
    return "Stored and ignored."


def _namespace(entry: Mapping[str, Any]) -> WellKnown:
    associations = entry.get("resource_type_associations", ())
    types = [Type(each["name"], each.get("prefix"), each.get("properties_target")) for each in associations]
    prefixes = [each.prefix or "" for each in types] or [""]

    def remarked(properties: Properties) -> Properties:
        return {name: _with_treatment(schema, _demand(prefixes, name)) for name, schema in properties.items()}

    return WellKnown(
        name=entry["namespace"],
        title=entry["display_name"],
        description=entry["description"],
        types=types,
        properties=remarked(entry.get("properties", {})),
        groups=[
            Group(each["name"], each["description"], remarked(each["properties"])) for each in entry.get("objects", ())
        ],
    )


def _demand(prefixes: list[str], name: str) -> Demand | None:
    known = (guest_demands.demand_of(source, prefix + name) for source in (IMAGE, FLAVOR) for prefix in prefixes)
    return next((demand for demand in known if demand is not None), None)


def _with_treatment(schema: Schema, demand: Demand | None) -> Schema:
    """Append to the description how launches treat the property. Replace choices of guest hardware by those that hosts
    support.
    """
    if demand is None:
        return schema
    described = {**schema, "description": f"{schema['description']} {words_of(demand)}"}
    hardware = demand.hardware
    if hardware is not None and hardware.kind == "choice" and not hardware.pattern and schema.get("enum"):
        described["enum"] = list(hardware.values)
    return described


NAMESPACES = tuple(_namespace(entry) for entry in json.loads(FILE.read_text())["namespaces"])
