"""Allocate: ports and addresses for a guest whose host is known."""

from __future__ import annotations

from django.utils import timezone

from provisioning.compute.models import Host, Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.services import actions, state
from provisioning.network import services as network


def allocate(instance: Instance, host: Host, action: InstanceAction) -> list[InstanceActionEvent] | None:
    """Give the instance its ports and move it to ``block_device_mapping``, inside the caller's transaction.

    Returns the step to be written, None when the launch has moved on.  Raises what ``network.services.allocate``
    raises; no other host would help then.
    """
    started = timezone.now()
    ports = network.allocate(
        instance.id,
        instance.project_id,
        instance.requested_networks,
        instance.security_groups,
        host.name,
        host.availability_zone,
    )
    if state.advance(instance, "map_block_devices", attempt=instance.attempt) is None:
        return None
    detail = {"ports": str(len(ports))}
    return [actions.step(action, "allocate_network", actions.since(started), attempt=instance.attempt, detail=detail)]
