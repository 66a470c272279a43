"""Sets the status of networks, routers and floating IPs by the results of their hosts."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER
from provisioning.network.announcements import announce
from provisioning.network.models import Delivery, FloatingIP, Network, Router

MODELS: Mapping[str, type[Any]] = {NETWORK: Network, ROUTER: Router, FLOATING_IP: FloatingIP}
"""Security groups have no status and are omitted."""


def note(kind: str, subject_id: uuid.UUID, rows: Sequence[Delivery]) -> None:
    """Set the record's status by its deliveries: ACTIVE, ERROR, or DOWN for a floating IP that no host has applied."""
    if kind not in MODELS:
        return
    told = [row for row in rows if row.digest]
    error = next((row.error for row in told if row.error), "")
    borne = kind != FLOATING_IP or any(row.command_id is None for row in told)
    status = "ERROR" if error else "ACTIVE" if borne else "DOWN"
    records: Any = MODELS[kind]._base_manager.filter(pk=subject_id)
    for record in records.exclude(status=status, error=error):
        records.update(status=status, error=error)
        announce(record)
