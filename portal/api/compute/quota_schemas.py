"""Which quotas each version of the Compute API knows, and what requests about them may look like."""

from __future__ import annotations

import functools
from typing import Any

from provisioning.quotas.limits import COMPUTE, MOST, VOLUME

Schema = dict[str, Any]
Version = tuple[int, int]

FIXED_IPS = "fixed_ips"
"""A resource of nova-network: always unlimited."""
CLASS_ONLY = tuple(VOLUME)
"""Defaults that have no other API yet; the class shows them beside its own."""
_INJECTED = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
_OF_NETWORKS = {
    "floating_ips": "floatingips",
    "security_groups": "security_groups",
    "security_group_rules": "security_group_rules",
}
_LIMIT: Schema = {"type": ["integer", "string"], "pattern": r"^-?[0-9]{1,10}\Z", "minimum": -1, "maximum": MOST}
_TRUE = (True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes")
_FALSE = (False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no")


@functools.cache
def resources_of(microversion: Version) -> dict[str, str]:
    """Return name in the API → resource, as the version has them."""
    names = {name: name for name in COMPUTE if microversion < (2, 57) or name not in _INJECTED}
    return names | (_OF_NETWORKS if microversion < (2, 36) else {})


def boolean(value: object) -> bool:
    """Read one of the words that Nova takes for a boolean."""
    return value in _TRUE


@functools.cache
def quota_set(microversion: Version) -> Schema:
    """Return the schema of ``PUT /os-quota-sets/{project}``."""
    return _schema("quota_set", microversion, {"force": {"enum": [*_TRUE, *_FALSE]}})


@functools.cache
def quota_class_set(microversion: Version) -> Schema:
    """Return the schema of ``PUT /os-quota-class-sets/default``."""
    return _schema("quota_class_set", microversion, dict.fromkeys(CLASS_ONLY, _LIMIT))


def _schema(name: str, microversion: Version, more: Schema) -> Schema:
    properties = dict.fromkeys(resources_of(microversion), _LIMIT) | more
    if microversion < (2, 36):
        properties[FIXED_IPS] = _LIMIT
    return {
        "type": "object",
        "properties": {name: {"type": "object", "properties": properties, "additionalProperties": False}},
        "required": [name],
        "additionalProperties": False,
    }
