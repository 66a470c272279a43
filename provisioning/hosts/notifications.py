"""Notifications about hosts: of operators' pages, and in the format of Nova's compute services."""

from provisioning.events.selectors import OPERATORS
from provisioning.events.services import record
from provisioning.hosts.models import Host
from provisioning.notifications import services
from provisioning.notifications.messages import Notification, Payload, is_selected, publisher, versioned, when

KIND = "host"
"""Kind of the events about hosts."""


def notify(host: Host, verb: str) -> None:
    """Send ``service.create``, ``service.update`` or ``service.delete`` for a host, and notify operators' pages."""
    record(OPERATORS, KIND, {"id": str(host.id)})
    event = f"service.{verb}"
    if is_selected(event):
        notification = Notification(event, publisher("nova-compute", host.name), payload(host), f"host:{host.id}")
        services.notify([notification])


def payload(host: Host) -> Payload:
    """Return a host as a compute service of Nova."""
    data = {
        "uuid": str(host.id),
        "host": host.name,
        "binary": "nova-compute",
        "topic": "compute",
        "disabled": not host.enabled,
        "disabled_reason": host.disabled_reason or None,
        "forced_down": host.forced_down,
        "last_seen_up": when(host.last_seen_at),
        "report_count": 0,
        "version": host.contract_version,
        "availability_zone": host.availability_zone,
    }
    return versioned("ServiceStatusPayload", "1.1", data)
