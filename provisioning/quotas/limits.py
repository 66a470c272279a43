"""The resources that are limited and Nova's default limits; -1 is unlimited, memory is in MiB."""

from __future__ import annotations

UNLIMITED = -1

DEFAULTS: dict[str, int] = {
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
    "networks": 100,
    "subnets": 100,
    "ports": 500,
    "routers": 10,
    "floatingips": 50,
    "security_groups": 10,
    "security_group_rules": 100,
    "volumes": 10,
    "gigabytes": 1000,
    "snapshots": 10,
}
"""Of a project, except ``key_pairs``, which is of a user.  Nova's, Neutron's and Cinder's own defaults."""
