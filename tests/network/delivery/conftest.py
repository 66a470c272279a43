"""Two hosts that are told of networks, and what they know."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.common.context import RequestContext
from provisioning.hosts.models import Host
from provisioning.network.delivery import sending
from provisioning.network.models import Delivery, FixedIP, Network, Port, Router, Subnet
from provisioning.network.records.owners import ROUTER_GATEWAY, ROUTER_INTERFACE
from tests.support.clouds import Cloud, context
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import derived, standing


@pytest.fixture
@derived
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    made = Cloud.make()
    for number, name in enumerate(("one", "two"), start=1):
        agent = made.add_host(name, documents=True)
        agent.host.host_ip = f"192.0.2.{number}"
        Host.objects.filter(id=agent.host.id).update(host_ip=agent.host.host_ip)
    return made


def known(agent: ScriptedAgent, kind: str, key: object) -> Any:
    """Return the document that a host has of a subject, None when it has none."""
    row = agent.documents.get((kind, str(key)))
    return row[1] if row is not None else None


def knew(agent: ScriptedAgent, kind: str, key: object, generation: int, document: Any) -> None:
    """Let a host have a document that it was told of before the records were lost."""
    row = Delivery(host_id=agent.host.id, kind=kind, subject_id=key, generation=generation)
    agent.documents[kind, str(key)] = (generation, document)
    agent.digests[kind, str(key)] = sending.mark_of(row, "of then")


def kinds(agent: ScriptedAgent) -> list[str]:
    return sorted(kind for kind, _ in agent.documents)


def leg(router: Router, network: Network, address: str, *, owner: str = ROUTER_INTERFACE) -> Port:
    """Put a router on a network."""
    subnet = Subnet.objects.filter(network=network).order_by("created_at").first()
    assert subnet is not None
    number = Port.objects.count()
    port = Port.objects.create(
        network=network,
        project_id=router.project_id,
        mac_address=f"fa:16:3e:aa:00:{number:02x}",
        device_owner=owner,
        device_id=router.id,
        device_index=number,
    )
    FixedIP.objects.create(port=port, subnet=subnet, address=address, number=1000 + number)
    if owner == ROUTER_GATEWAY:
        Router.objects.filter(id=router.id).update(gateway_port=port)
    return port
