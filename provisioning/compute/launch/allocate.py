"""Allocate ports and addresses for a guest whose host is known."""

from django.utils import timezone

from provisioning.compute.launch.builds import Build
from provisioning.compute.records.instance_actions import Step
from provisioning.ec2 import creation_tags
from provisioning.hosts.models import Host
from provisioning.network import services as network
from provisioning.scheduler import HostState


def allocate(build: Build, host: HostState | Host) -> Step:
    """Allocate the instance's ports on the host, inside the caller's transaction; returns the step to write.

    A server that has run before still has its ports, which are only bound. Raises the errors of
    ``network.services.allocate``, which would also occur on another host.
    """
    started = timezone.now()
    instance = build.instance
    if build.kind.keeps_ports:
        ports = network.bind_ports(instance.id, host.name)
    else:
        ports = network.allocate(
            instance.id,
            instance.project_id,
            instance.requested_networks,
            instance.security_groups,
            host.name,
            host.availability_zone,
            dns_name=instance.hostname.lower(),
        )
        new = [port.id for port in ports if port.delete_with_device]
        creation_tags.apply(instance.id, "network-interface", new)
    network.associate_automatic(instance.id, ports)
    return Step("allocate_network", started, detail={"ports": str(len(ports))})
