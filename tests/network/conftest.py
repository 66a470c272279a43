"""One network of alice's project."""

from __future__ import annotations

import pytest

from provisioning.network import services
from provisioning.network.models import Network
from tests.support.cast import Person
from tests.support.standing import standing


@pytest.fixture
@standing
def net(alice: Person) -> Network:
    """10.20.0.1 is the gateway, .2 to .254 are given out."""
    network = services.create_network(alice.project_id, "net")
    services.create_subnet(network, "10.20.0.0/24", name="subnet", dns_nameservers=["9.9.9.9"])
    return network
