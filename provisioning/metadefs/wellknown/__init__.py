"""The built-in namespaces: those of OpenStack that have a meaning in Novella, and Novella's own."""

from dataclasses import replace

from provisioning.common.values import guest_demands
from provisioning.common.values.guest_demands import FLAVOR, IMAGE, Demand
from provisioning.metadefs.wellknown import compute, flavors, images, software
from provisioning.metadefs.wellknown.words import Properties, Schema, WellKnown, words_of


def _remarked(namespace: WellKnown) -> WellKnown:
    """Append to the description of each property how launches treat the property."""
    prefixes = [each.prefix or "" for each in namespace.types] or [""]

    def remarked(properties: Properties) -> Properties:
        return {name: _with_treatment(schema, _demand(prefixes, name)) for name, schema in properties.items()}

    groups = [replace(group, properties=remarked(group.properties)) for group in namespace.groups]
    return replace(namespace, properties=remarked(namespace.properties), groups=groups)


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


NAMESPACES: tuple[WellKnown, ...] = tuple(
    _remarked(each) for each in (*images.NAMESPACES, *flavors.NAMESPACES, *compute.NAMESPACES, *software.NAMESPACES)
)
