"""Everything the cloud has written down, read from its database by nobody's code but ours, at one moment."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chaos.database import Database, Row
from chaos.journals import Hypervisors, plain

TABLES = {
    "instances": "SELECT * FROM compute_instance",
    "hosts": "SELECT * FROM hosts_host",
    "allocations": "SELECT * FROM compute_allocation",
    "faults": "SELECT * FROM compute_instancefault ORDER BY id",
    "actions": "SELECT * FROM compute_instanceaction ORDER BY id",
    "steps": "SELECT * FROM compute_instanceactionevent ORDER BY id",
    "migrations": "SELECT * FROM compute_migration",
    "ports": "SELECT * FROM network_port",
    "addresses": "SELECT * FROM network_fixedip",
    "usages": "SELECT * FROM quotas_quotausage",
    "reservations": "SELECT * FROM quotas_reservation",
    "orders": "SELECT * FROM hosts_hostcommand ORDER BY created_at",
    "messages": "SELECT * FROM django_q_ormq",
    "images": "SELECT * FROM images_image",
}
_JSON = {"flavor", "old_flavor", "requested_networks", "excluded_hosts", "properties"}
_RESTLESS = "SELECT count(*) AS left FROM compute_instance WHERE task_state IS NOT NULL"
_QUEUED = "SELECT count(*) AS left FROM django_q_ormq WHERE key = 'scheduler'"
_ORDERED = "SELECT count(*) AS left FROM hosts_hostcommand WHERE finished_at IS NULL"


@dataclass
class Books:
    """The rows of each table, ids as 32 hex digits, and what the hypervisors have."""

    instances: list[Row] = field(default_factory=list)
    hosts: list[Row] = field(default_factory=list)
    allocations: list[Row] = field(default_factory=list)
    faults: list[Row] = field(default_factory=list)
    actions: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    migrations: list[Row] = field(default_factory=list)
    ports: list[Row] = field(default_factory=list)
    addresses: list[Row] = field(default_factory=list)
    usages: list[Row] = field(default_factory=list)
    reservations: list[Row] = field(default_factory=list)
    orders: list[Row] = field(default_factory=list)
    messages: list[Row] = field(default_factory=list)
    images: list[Row] = field(default_factory=list)
    domains: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Instance → name of its host, and the domain."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Instance → a host that has anything of it."""
    twice: Mapping[str, str] = field(default_factory=dict)
    """Instances that ever had domains on two hosts, and where."""


def read(database: Database, hypervisors: Hypervisors) -> Books:
    """Read it all; raises an error of the driver."""
    tables = {name: [_tidy(row) for row in database.read(statement)] for name, statement in TABLES.items()}
    hypervisors.look()
    return Books(**tables, domains=hypervisors.domains(), kept=hypervisors.kept(), twice=dict(hypervisors.twice))


def unsettled(database: Database) -> int:
    """Return how many servers are on their way, messages queued and orders not ended."""
    return sum(int(database.read(statement)[0]["left"]) for statement in (_RESTLESS, _QUEUED, _ORDERED))


def _tidy(row: Row) -> Row:
    return {name: _plain(name, value) for name, value in row.items()}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return value.hex
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if name in _JSON and isinstance(value, str):
        return json.loads(value)
    if isinstance(value, str) and len(value) == 36 and value.count("-") == 4:
        return plain(value)
    return value
