"""Quotas of each version of the Compute API, and the schemas of requests about them."""

import functools

from portal.api.compute.dialect.schemas import BOOLEAN, Schema, Version, body, query
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.quotas.limits import COMPUTE

_INJECTED = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
OF_NETWORKS = {
    "fixed_ips": "fixed_ips",
    "floating_ips": "floatingips",
    "security_groups": "security_groups",
    "security_group_rules": "security_group_rules",
}
"""Name in the API → resource that the Network API limits; as in Nova, the Compute API shows -1 until a limit is set."""
_LIMIT: Schema = {"type": ["integer", "string"], "pattern": r"^-?[0-9]{1,10}\Z", "minimum": -1, "maximum": MAX_INTEGER}
_GROUPS = ("server_groups", "server_group_members")


@functools.cache
def resources_of(microversion: Version) -> dict[str, str]:
    """Return the resources that have a limit in this version: name in the API → resource."""
    names = {name: name for name in COMPUTE if microversion < (2, 57) or name not in _INJECTED}
    return names | (OF_NETWORKS if microversion < (2, 36) else {})


RESOURCES = resources_of((2, 1))
"""Name in the API → resource, for the resources of all versions."""


@functools.cache
def class_resources_of(microversion: Version) -> dict[str, str]:
    """Return the resources that quota classes limit in this version: name in the API → resource. 2.50 removed the
    resources of networks and added server groups.
    """
    if microversion >= (2, 50):
        return resources_of(microversion)
    return {name: resource for name, resource in RESOURCES.items() if name not in _GROUPS}


def quota_set(version: Version) -> Schema:
    """Return the schema of ``PUT /os-quota-sets/{project}``."""
    return body("quota_set", dict.fromkeys(resources_of(version), _LIMIT) | {"force": BOOLEAN})


def quota_class_set(version: Version) -> Schema:
    """Return the schema of ``PUT /os-quota-class-sets/{class}``."""
    names = [*class_resources_of(version), *_GROUPS]
    return body("quota_class_set", dict.fromkeys(names, _LIMIT))


def of_user(version: Version) -> Schema:
    """The query of ``/os-quota-sets/{project}`` and of its detail."""
    return query(version, {"user_id": {"type": "string"}})


def limits(version: Version) -> Schema:
    """The query of ``GET /limits``."""
    return query(version, {"tenant_id": {"type": "string"}, "reserved": {"type": "string"}})
