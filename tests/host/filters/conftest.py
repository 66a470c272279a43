"""A host whose filters, leases and names are tried by interfaces without guests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compute_agent.contract.build import InstanceSpec
from tests.host.cast import Wish
from tests.host.filters.plugging import Plug
from tests.host.host_process import HostProcess
from tests.host.lab import (
    Interface,
    Lab,
    Space,
)


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HostProcess]:
    host = HostProcess(lab.settings, lab.machine.path, Path("/dev/null"))
    host.network.init_host()
    yield host
    host.kill()


@pytest.fixture
def inside(lab: Lab, host: HostProcess) -> Space:
    return lab.inside()


@pytest.fixture
def plugged(host: HostProcess) -> Iterator[list[InstanceSpec]]:
    """The instances of one test; they are unplugged after it."""
    specs: list[InstanceSpec] = []
    yield specs
    for spec in specs:
        host.network.unplug(spec.uuid)


@pytest.fixture
def plug(lab: Lab, host: HostProcess, inside: Space, plugged: list[InstanceSpec]) -> Iterator[Plug]:
    interfaces: list[Interface] = []

    def plug(wish: Wish) -> Interface:
        spec = wish.spec()
        host.network.plug(spec)
        host.network.apply_firewall(spec)
        plugged.append(spec)
        interfaces.append(Interface(inside, spec.ports[0], f"{lab.settings.netns}-{len(interfaces)}"))
        return interfaces[-1]

    yield plug
    for interface in interfaces:
        interface.remove()
