"""Deletion of a host: nothing is sent to it afterwards."""

import uuid

from django.utils import timezone

from provisioning.events import services as events
from provisioning.hosts.commands import topic
from provisioning.hosts.models import HostCall, HostCommand


def forget(host_id: uuid.UUID) -> None:
    """End all commands and calls to a host, and its agent's connection, in the caller's transaction."""
    HostCommand.objects.filter(host_id=host_id, finished_at=None).update(finished_at=timezone.now())
    HostCall.objects.filter(host_id=host_id).delete()
    events.record(topic(host_id), "link", {"link": "forgotten"})
