"""Requests to the metadata definitions that several tests make."""

from __future__ import annotations

from typing import Any

from tests.support.cast import Api, Person

V2 = "/image/v2/metadefs"
NAMESPACES = f"{V2}/namespaces"
STRING = {"title": "T", "type": "string"}
FULL = {
    "namespace": "Acme::Disk",
    "display_name": "Disks of Acme",
    "description": "What disks are.",
    "visibility": "public",
    "resource_type_associations": [
        {"name": "OS::Glance::Image", "prefix": "acme_"},
        {"name": "OS::Cinder::Volume", "prefix": "acme_", "properties_target": "image"},
    ],
    "properties": {"speed": {**STRING, "enum": ["slow", "fast"], "default": "slow"}},
    "objects": [{"name": "size", "required": ["gib"], "properties": {"gib": {"title": "GiB", "type": "integer"}}}],
    "tags": [{"name": "ssd"}, {"name": "hdd"}],
}


def define(operator: Person, name: str = "Acme::Disk", **values: Any) -> str:
    """Make a namespace; return its address."""
    answer = Api(operator).post(NAMESPACES, {"namespace": name, **values})
    assert answer.status_code == 201, answer.content
    return f"{NAMESPACES}/{name}"


def listed(person: Person, query: str = "") -> list[str]:
    answer = Api(person).get(f"{NAMESPACES}?{query}")
    assert answer.status_code == 200, answer.content
    return [each["namespace"] for each in answer.json()["namespaces"]]
