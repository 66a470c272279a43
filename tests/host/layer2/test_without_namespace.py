"""An agent in the machine's own network namespace, as on a hypervisor of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.network import cleanup
from compute_agent.network.kernel import namespace
from compute_agent.settings import AgentSettings
from tests.host.cast import Wish
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Interface, Space, links, processes_naming
from tests.host.layer2.rack import document
from tests.host.layer2.test_services import asks


@pytest.fixture
def machine() -> Iterator[Space]:
    space = Space(f"nvw{os.getpid()}")
    space.do(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("0"))
    yield space
    space.remove()


def test_guests_are_served_and_nothing_is_left(machine: Space, tmp_path: Path) -> None:
    settings = AgentSettings(host="h", state_dir=tmp_path, underlay_address="127.0.0.1", guest_user="nobody")
    host = HostProcess(settings, machine.path, Path("/dev/null"))
    host.network.init_host()
    net = document(71)
    host.network.apply(net, 1)
    ref = replace(Wish().network, id=net.id, bridge=net.bridge, cidr="10.71.0.0/24", gateway=None, segment=net.segment)
    spec = Wish(1, network=ref, port_security=False).spec()
    host.network.plug(spec)
    host.network.apply_firewall(spec)
    guest = Interface(machine, spec.ports[0], f"{machine.name}-guest")
    assert asks(guest)["ip"] == "10.71.0.5"
    assert namespace.listed(f"novella-n-{net.id}")
    (uplink,) = [name for name in links(machine) if name.startswith("nv-")]
    address = machine.run("ip", "-4", "-o", "addr", "show", "dev", uplink).split()[3].split("/")[0]
    service = Space(f"novella-n-{net.id}")
    assert " 0% packet loss" in service.run("busybox", "ping", "-c1", f"-W{int(PATIENCE)}", address, check=False)
    assert host.network.check() == []
    guest.remove()
    host.kill()
    machine.do(lambda: cleanup.remove_everything(settings))
    assert links(machine) == set()
    assert not namespace.listed(f"novella-n-{net.id}")
    assert processes_naming(tmp_path) == []
    assert "novella" not in machine.run("nft", "list", "ruleset")
    assert machine.do(lambda: Path("/proc/sys/net/ipv4/ip_forward").read_text()) == "0\n"
