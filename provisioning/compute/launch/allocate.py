"""Allocate: ports and addresses for a guest whose host is known."""

from django.utils import timezone

from provisioning.compute import instance_actions
from provisioning.compute.launch.build_kinds import UNSHELVE, build_kind_of
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent
from provisioning.network import services as network
from provisioning.scheduler import HostState


def allocate(instance: Instance, host: HostState, action: InstanceAction) -> InstanceActionEvent:
    """Give the instance its ports on the host, inside the caller's transaction; returns the step to be written.

    One that comes off its shelf has kept its ports.  Raises what ``network.services.allocate`` raises; no other host
    would help then.
    """
    started = timezone.now()
    ports = (
        network.bind_ports(instance.id, host.name)
        if build_kind_of(instance) is UNSHELVE
        else network.allocate(
            instance.id,
            instance.project_id,
            instance.requested_networks,
            instance.security_groups,
            host.name,
            host.availability_zone,
            dns_name=instance.hostname,
        )
    )
    network.lead_automatic(instance.id, ports)
    detail = {"ports": str(len(ports))}
    return instance_actions.step(
        action, "allocate_network", instance_actions.since(started), attempt=instance.attempt, detail=detail
    )
