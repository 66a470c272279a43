"""Interfaces of servers have the port security of their network, whoever creates the port."""

from __future__ import annotations

import uuid

import pytest

from provisioning.common.context import RequestContext
from provisioning.compute.actions.interfaces import attach_interface
from provisioning.compute.actions.security_groups import add_security_group
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance
from provisioning.network import services as network
from provisioning.network.errors import SecurityGroupCannotBeAppliedError
from provisioning.network.models import Network, Port, SecurityGroup
from tests.support.clouds import Cloud
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def unfiltered(alice: RequestContext) -> Network:
    made = network.create_network(alice.project_id or uuid.uuid4(), "unfiltered", port_security_enabled=False)
    network.create_subnet(made, "10.31.0.0/24")
    return made


@pytest.fixture
@standing
def web(alice: RequestContext) -> SecurityGroup:
    return network.create_security_group(alice.project_id or uuid.uuid4(), "web")


def on(*networks: Network) -> tuple[NetworkRequest, ...]:
    return tuple(NetworkRequest(network_id=str(each.id)) for each in networks)


def security(instance: Instance) -> list[tuple[bool, int]]:
    ports = Port.objects.filter(device_id=instance.id).order_by("device_index")
    return [(port.port_security_enabled, port.security_groups.count()) for port in ports]


@pytest.mark.slow
def test_ports_of_a_launch_and_of_an_attachment(cloud: Cloud, alice: RequestContext, unfiltered: Network) -> None:
    cloud.add_host("kelvin")
    instance = cloud.running(alice, networks=on(unfiltered, cloud.network))
    assert security(instance) == [(False, 0), (True, 1)]
    attach_interface(alice, instance.id, on(unfiltered)[0])
    cloud.run()
    assert security(instance) == [(False, 0), (True, 1), (False, 0)]
    spec = guest_spec(cloud.fresh(instance))
    assert [(port.port_security, port.security_group_ids == []) for port in spec.ports] == [
        (False, True), (True, False), (False, True),
    ]  # fmt: skip


@pytest.mark.slow
def test_groups_are_refused_where_they_cannot_be_applied(
    cloud: Cloud, alice: RequestContext, unfiltered: Network, web: SecurityGroup
) -> None:
    for networks in ((unfiltered,), (cloud.network, unfiltered)):
        for group in ("web", str(web.id)):
            with pytest.raises(SecurityGroupCannotBeAppliedError):
                cloud.launch(alice, networks=on(*networks), security_groups=(group,))
    assert not Instance.objects.exists()
    cloud.add_host("kelvin")
    for groups in (("default",), None):
        instance = cloud.running(alice, networks=on(unfiltered), security_groups=groups)
        assert security(instance) == [(False, 0)]
    with pytest.raises(SecurityGroupCannotBeAppliedError):
        add_security_group(alice, instance.id, "web")
    assert security(instance) == [(False, 0)]
    assert cloud.running(alice, networks=on(cloud.network), security_groups=("web",)).security_groups == [str(web.id)]
