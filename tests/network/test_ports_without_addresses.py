"""Ports without an address: made where there is none to have, refused by servers, and told of to hosts."""

from __future__ import annotations

import ipaddress
import uuid

import pytest

from provisioning.network import selectors, services
from provisioning.network.errors import PortRequiresFixedIPError
from provisioning.network.models import Network, Port
from tests.support.cast import Person

pytestmark = pytest.mark.django_db


@pytest.fixture
def bare(alice: Person, net: Network) -> Port:
    return services.create_port(alice.project_id, net, fixed_ips=[])


def test_a_launch_refuses_it(alice: Person, bare: Port) -> None:
    message = f"Port {bare.id} requires a FixedIP in order to be used."
    with pytest.raises(PortRequiresFixedIPError, match=message):
        selectors.requested_networks_for(alice.context, [{"port_id": str(bare.id)}])
    with pytest.raises(PortRequiresFixedIPError, match=message):
        services.allocate(uuid.uuid4(), alice.project_id, [{"port_id": str(bare.id)}], [], "host-1", "nova")
    bare.refresh_from_db()
    assert bare.device_id is None


def test_a_guest_s_port_may_lose_its_last_subnet(alice: Person, net: Network) -> None:
    instance = uuid.uuid4()
    requested = [{"network_id": str(net.id)}]
    [port] = services.allocate(instance, alice.project_id, requested, [], "host-1", "nova")
    services.update_port(port, {}, fixed_ips=[])
    services.delete_subnet(net.subnets.get())
    [ref] = selectors.port_refs(instance)
    assert (ref.fixed_ips, ref.network.subnets, ref.network.gateway) == ([], [], None)
    assert ipaddress.ip_network(ref.network.cidr)  # as hosts read it
