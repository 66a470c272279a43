"""Two projects, one network with a small pool."""

from __future__ import annotations

import uuid

import pytest

from provisioning.common.context import RequestContext
from provisioning.network import services
from provisioning.network.models import Network

READER = frozenset({"reader"})
MEMBER = READER | {"member"}
ADMIN = MEMBER | {"admin"}


def context(name: str, roles: frozenset[str] = MEMBER) -> RequestContext:
    """A caller in a project of their own."""
    return RequestContext(
        user_id=uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.user"),
        user_name=name,
        project_id=uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.project"),
        project_name=name,
        roles=roles,
    )


@pytest.fixture
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
def charlie() -> RequestContext:
    return context("charlie")


@pytest.fixture
def operator() -> RequestContext:
    return context("operator", ADMIN)


@pytest.fixture
def net(db: None, alice: RequestContext) -> Network:
    """Alice's network; 10.20.0.1 is the gateway, .2 to .254 are given out."""
    network = services.create_network(alice.project_id, "net")
    services.create_subnet(network, "10.20.0.0/24", name="subnet", dns_nameservers=["9.9.9.9"])
    return network
