"""Notes at networks, routers and floating IPs how their hosts are with them."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER
from provisioning.network.announcements import announce
from provisioning.network.models import Delivery, FloatingIP, Network, Router

MODELS: Mapping[str, type[Any]] = {NETWORK: Network, ROUTER: Router, FLOATING_IP: FloatingIP}
"""Security groups have no status, so that nothing is noted at them."""


def note(kind: str, subject_id: uuid.UUID, rows: Sequence[Delivery]) -> None:
    """Write at the record whether its hosts are as they were told: ACTIVE, ERROR, or DOWN for an unused floating IP."""
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
