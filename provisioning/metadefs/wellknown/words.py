"""Short functions that define the built-in namespaces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provisioning.common.values.guest_demands import OFF, Demand, Effect

Schema = Mapping[str, Any]
Properties = Mapping[str, Schema]

IMAGE, VOLUME, FLAVOR = "OS::Glance::Image", "OS::Cinder::Volume", "OS::Nova::Flavor"
SERVER, AGGREGATE = "OS::Nova::Server", "OS::Nova::Aggregate"


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
    """A built-in namespace."""

    name: str
    title: str
    description: str
    types: Sequence[Type]
    properties: Properties = field(default_factory=dict)
    groups: Sequence[Group] = ()


def image(prefix: str | None = None) -> Type:
    return Type(IMAGE, prefix)


def volume(prefix: str | None = None) -> Type:
    """Return the association with volumes, for the properties that a volume has inherited from its image."""
    return Type(VOLUME, prefix, "image")


def flavor(prefix: str | None = None) -> Type:
    return Type(FLAVOR, prefix)


def server(target: str) -> Type:
    return Type(SERVER, None, target)


def aggregate(prefix: str | None = None) -> Type:
    return Type(AGGREGATE, prefix)


def text(title: str, description: str, *choices: str, **more: Any) -> Schema:
    chosen = {"enum": list(choices)} if choices else {}
    return {"title": title, "description": description, "type": "string", **chosen, **more}


def integer(title: str, description: str, *, least: int | None = None, most: int | None = None, **more: Any) -> Schema:
    bounds = {name: value for name, value in (("minimum", least), ("maximum", most)) if value is not None}
    return {"title": title, "description": description, "type": "integer", **bounds, **more}


def number(title: str, description: str, **more: Any) -> Schema:
    return {"title": title, "description": description, "type": "number", **more}


def truth(title: str, description: str) -> Schema:
    return {"title": title, "description": description, "type": "boolean"}


def several(title: str, description: str, *choices: str) -> Schema:
    """Return the schema of a property with a list of values; a scheduler may require one or all of them."""
    items = {"type": "string", **({"enum": list(choices)} if choices else {})}
    return {
        "title": title,
        "description": description,
        "type": "array",
        "operators": ["<or>", "<all-in>"],
        "items": items,
    }
