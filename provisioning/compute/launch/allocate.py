"""Allocate ports and addresses for a guest whose host is known."""

from django.utils import timezone

from provisioning.common.values.ids import read_id
from provisioning.compute.launch.builds import Build
from provisioning.compute.records.instance_actions import Step
from provisioning.ec2 import creation_tags
from provisioning.network import services as network
from provisioning.scheduler import HostState


def allocate(build: Build, host: HostState) -> Step:
    """Allocate the instance's ports on the host, inside the caller's transaction; returns the step to write.

    A server that has run before still has its ports, which are only bound. Raises the errors of
    ``network.services.allocate``, which another host would not avoid.
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
        port_ids = {read_id(entry.get("port_id")) for entry in instance.requested_networks}
        creation_tags.apply(instance.id, "network-interface", [port.id for port in ports if port.id not in port_ids])
    network.associate_automatic(instance.id, ports)
    return Step("allocate_network", started, detail={"ports": str(len(ports))})
