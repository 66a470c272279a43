"""The limited resources and their default limits; -1 is unlimited, memory is in MiB."""

from collections.abc import Mapping

from django.conf import settings

UNLIMITED = -1

COMPUTE: dict[str, int] = {
    "instances": 10,
    "cores": 20,
    "ram": 51_200,
    "metadata_items": 128,
    "injected_files": 5,
    "injected_file_content_bytes": 10_240,
    "injected_file_path_bytes": 255,
    "key_pairs": 100,
    "server_groups": 10,
    "server_group_members": 10,
}
NETWORK: dict[str, int] = {
    "networks": 100,
    "subnets": 100,
    "ports": 500,
    "fixed_ips": 50,
    "routers": 10,
    "floatingips": 50,
    "security_groups": 10,
    "security_group_rules": 100,
    "subnetpools": 50,
    "rbac_policies": 100,
    "address_groups": 50,
    "address_scopes": 50,
}
VOLUME: dict[str, int] = {
    "volumes": 10,
    "gigabytes": 1000,
    "snapshots": 10,
    "backups": 10,
    "backup_gigabytes": 1000,
    "groups": 10,
    "per_volume_gigabytes": -1,
}
IMAGE: dict[str, int] = {
    "image_size_total": 51_200,
    "image_count_total": 100,
}
"""The limits of images, with Glance's names; sizes in MiB. Glance has no limits unless an operator registers some."""
DEFAULTS: dict[str, int] = COMPUTE | NETWORK | VOLUME | IMAGE
"""The defaults of Nova, Neutron and Cinder, and the defaults of images.

``fixed_ips``, the addresses of ports, is unlimited in Nova. Here it is limited, because projects share networks with a
few hundred addresses. No current client can set it, so it is raised with the limits in ``FOLLOWS``. Neutron does not
limit subnet pools, address groups and address scopes, and allows ten RBAC policies for a project.
"""

FOLLOWS: dict[str, tuple[str, ...]] = {"fixed_ips": ("instances", "ports")}
"""Limit → the limits that it follows: it is raised to the largest of those that an operator has set.

If an operator has set the limit itself, see ``raised``.
"""

PER_USER = frozenset({"key_pairs"})
"""Resources that are counted for a user in all projects together; the limit is taken from the request's project."""
OF_USERS = frozenset({"instances", "cores", "ram", "server_groups"})
"""Resources of a project, recorded with the user who created them; a user may have its own limit in the project."""
EACH = frozenset(
    {
        "metadata_items",
        "injected_files",
        "injected_file_content_bytes",
        "injected_file_path_bytes",
        "server_group_members",
        "per_volume_gigabytes",
    }
)
"""Limits on single values, not on sums. They have no ledger; ``services.check_each`` compares a value with its limit.
"""
MEASURED = frozenset(IMAGE)
"""Resources counted from the records for each request, under a lock of the project."""
PER_TYPE = ("volumes_", "gigabytes_", "snapshots_")
"""Prefixes of resources of one volume type; the name of the type follows. Unlimited by default."""
LEDGER = frozenset(DEFAULTS) - EACH - MEASURED
"""Resources with a ledger: ``services.reserve`` and ``hold`` record their usage."""


def is_per_type(resource: str) -> bool:
    """Whether a resource belongs to a single volume type."""
    return resource.startswith(PER_TYPE)


def raised(
    limits: Mapping[str, int], default_rows: Mapping[str, int], project_rows: Mapping[str, int]
) -> dict[str, int]:
    """Return the limits of a project, ``limits``, after raising the limits that are in ``FOLLOWS``.

    ``default_rows``, ``project_rows``: resource → limit that operators have set for all projects, and for this project.
    If ``project_rows`` contains the limit to be raised, it is not raised. If only ``default_rows`` contains it, only
    the project's rows can raise it.
    """
    result = dict(limits)
    for resource, others in FOLLOWS.items():
        if resource in project_rows or resource not in limits:
            continue
        levels = (project_rows,) if resource in default_rows else (default_rows, project_rows)
        leading = [rows[other] for rows in levels for other in others if other in rows]
        leading.append(result[resource])
        result[resource] = UNLIMITED if UNLIMITED in leading else max(leading)
    return result


def delivered() -> dict[str, int]:
    """Return the limits of a cloud in which operators have set none: the defaults, modified by the settings."""
    bytes_of_images = int(settings.IMAGE_STORAGE_QUOTA)
    return DEFAULTS | {"image_size_total": bytes_of_images >> 20 if bytes_of_images else UNLIMITED}
