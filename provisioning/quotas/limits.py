"""The resources that are limited and Nova's default limits; -1 is unlimited, memory is in MiB."""

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
    "routers": 10,
    "floatingips": 50,
    "security_groups": 10,
    "security_group_rules": 100,
}
VOLUME: dict[str, int] = {
    "volumes": 10,
    "gigabytes": 1000,
    "snapshots": 10,
}
DEFAULTS: dict[str, int] = COMPUTE | NETWORK | VOLUME
"""Nova's, Neutron's and Cinder's own defaults."""

PER_USER = frozenset({"key_pairs"})
"""Held by a user over all projects; the limit is that of the project in which one more is asked for."""
EACH = frozenset(
    {
        "metadata_items",
        "injected_files",
        "injected_file_content_bytes",
        "injected_file_path_bytes",
        "server_group_members",
    }
)
"""Limits of one thing, not of a sum: nothing is kept of them, ``services.check_each`` compares."""
LEDGER = frozenset(DEFAULTS) - EACH
"""Held in sum: what is used of them is written down by ``services.reserve`` and ``hold``."""
