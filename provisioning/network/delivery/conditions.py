"""Sets the status of networks, routers and floating IPs by the results of their hosts."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import CharField, UUIDField

from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER
from provisioning.common.database.prepared import Prepared
from provisioning.network.models import Delivery, FloatingIP, Network, Router
from provisioning.network.records.announcements import announce

MODELS: Mapping[str, type[Any]] = {NETWORK: Network, ROUTER: Router, FLOATING_IP: FloatingIP}
"""Security groups have no status and are omitted."""


def note(kind: str, subject_id: uuid.UUID, rows: Sequence[Delivery]) -> None:
    """Set the record's status by its deliveries: ACTIVE, ERROR, or DOWN for a floating IP that no host has applied."""
    if kind not in MODELS:
        return
    sent = [row for row in rows if row.digest]
    error = next((row.error for row in sent if row.error), "")
    borne = kind != FLOATING_IP or any(row.command_id is None for row in sent)
    status = "ERROR" if error else "ACTIVE" if borne else "DOWN"
    for record in _DIFFERENT[kind](key=subject_id, status=status, error=error):
        MODELS[kind]._base_manager.filter(pk=subject_id).update(status=status, error=error)
        announce(record)


def _different(model: type[Any]) -> Prepared[Any]:
    """Return the query for a record unless it has this status and error."""
    return Prepared(
        lambda key, status, error: model._base_manager.filter(pk=key).exclude(status=status, error=error),
        key=UUIDField(),
        status=CharField(),
        error=CharField(),
    )


_DIFFERENT = {kind: _different(model) for kind, model in MODELS.items()}
