"""Allocates each host's own address on an external network."""

import logging
import uuid
from collections.abc import Mapping, Sequence

import netaddr
from django.db import transaction

from compute_agent.contract.network import ServicePort
from provisioning.hosts.models import Host
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FixedIP, Network, Port
from provisioning.network.records.owners import AGENT_GATEWAY
from provisioning.network.services.ports.insertion import insert_port
from provisioning.network.services.ports.ports import lock_subnets

log = logging.getLogger(__name__)


def agent_gateways(network: Network, hosts: Sequence[Host]) -> Mapping[uuid.UUID, ServicePort]:
    """Return host id → the host's port on an external network. Creates missing ports, and deletes ports of other hosts.

    A host gets no port if no address is free: its guests then reach the network only by floating IPs.
    """
    ids = [host.id for host in hosts]
    Port.objects.filter(network=network, device_owner=AGENT_GATEWAY).exclude(device_id__in=ids).delete()
    there = {port.device_id: port for port in Port.objects.filter(network=network, device_owner=AGENT_GATEWAY)}
    for host in hosts:
        if host.id not in there:
            port = _made(network, host)
            if port is not None:
                there[host.id] = port
    rows = FixedIP.objects.filter(port__in=there.values()).select_related("subnet").order_by("id")
    addresses: dict[uuid.UUID, list[str]] = {}
    for row in rows:
        length = netaddr.IPNetwork(row.subnet.cidr).prefixlen
        addresses.setdefault(row.port_id or network.id, []).append(f"{row.address}/{length}")
    return {
        host: ServicePort(id=str(port.id), mac_address=port.mac_address, addresses=addresses.get(port.id, []))
        for host, port in there.items()
        if host is not None
    }


def _made(network: Network, host: Host) -> Port | None:
    port = Port(
        network=network,
        project_id=network.project_id,
        device_owner=AGENT_GATEWAY,
        device_id=host.id,
        host=host.name,
        status="ACTIVE",
        port_security_enabled=False,
    )
    subnets = [subnet for subnet in lock_subnets([str(network.id)]).get(network.id, []) if subnet.ip_version == 4]
    try:
        with transaction.atomic():
            return insert_port(port, network, subnets, None, [])
    except OutOfAddressesError:
        log.warning("Host %s gets no address on the external network %s: none is left.", host.name, network.id)
        return None
