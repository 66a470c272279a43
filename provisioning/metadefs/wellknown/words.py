"""The few words in which the namespaces that come with the cloud are written down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provisioning.common.guest_demands import Demand

Schema = Mapping[str, Any]
Properties = Mapping[str, Schema]

IMAGE, VOLUME, FLAVOR = "OS::Glance::Image", "OS::Cinder::Volume", "OS::Nova::Flavor"
SERVER, AGGREGATE = "OS::Nova::Server", "OS::Nova::Aggregate"
KEPT = "Kept and shown; hosts of this cloud do not act on it."


def words_of(demand: Demand) -> str:
    """Say with which values of a demand that is refused a launch is accepted all the same."""
    accepted = " or ".join(demand.readable)
    return f"A launch that demands anything but {accepted} is refused." if accepted else "A launch with it is refused."


@dataclass(frozen=True)
class Type:
    """A kind of thing that a namespace is meant for."""

    name: str
    prefix: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Group:
    """Properties that are set together: an object."""

    name: str
    description: str
    properties: Properties


@dataclass(frozen=True)
class WellKnown:
    """A namespace that comes with the cloud."""

    name: str
    title: str
    description: str
    types: Sequence[Type]
    properties: Properties = field(default_factory=dict)
    groups: Sequence[Group] = ()


def image(prefix: str | None = None) -> Type:
    return Type(IMAGE, prefix)


def volume(prefix: str | None = None) -> Type:
    """What a volume has of its image."""
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
    """A property with a list of values, all of which a scheduler may ask for."""
    items = {"type": "string", **({"enum": list(choices)} if choices else {})}
    return {
        "title": title,
        "description": description,
        "type": "array",
        "operators": ["<or>", "<all-in>"],
        "items": items,
    }
