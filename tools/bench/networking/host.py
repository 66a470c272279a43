"""Measures one host's network in separate namespaces; ``tools.bench.networking.command`` runs it there, as root.

A guest is replaced by a namespace with a veth pair, whose host end has the name of the guest's tap; QEMU is not needed.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from compute_agent.contract.build import (
    FixedAddress,
    FlavorRef,
    ImageRef,
    InstanceSpec,
    NetworkRef,
    PortRef,
    SecurityRule,
    Segment,
    SubnetRef,
)
from compute_agent.contract.network import NetworkDocument, SecurityGroupDocument, ServicePort
from compute_agent.network.filters.applying import Filters
from compute_agent.network.kernel import namespace
from compute_agent.network.linux import LinuxNetwork
from compute_agent.network.state.desired import DesiredState, LocalPort
from compute_agent.settings import AgentSettings

GUESTS, RULES = 100, 20
COMERS = 10
"""Guests that are added one after the other."""
ROUNDS = 5
PORT = 8080
PAUSE = 0.002
"""Seconds between two attempts to connect."""
WITHIN = 10.0
EGRESS = SecurityRule(direction="egress")
OPEN = SecurityRule(direction="ingress", protocol="tcp", port_range_min=PORT, port_range_max=PORT)


def document(number: int) -> NetworkDocument:
    """Return the spec of the network 10.``number``.0.0/16, with DHCP."""
    key = str(uuid.uuid5(uuid.NAMESPACE_OID, f"network {number}"))
    subnet = SubnetRef(id=str(uuid.uuid5(uuid.NAMESPACE_OID, key)), cidr=f"10.{number}.0.0/16")
    service = ServicePort(id=key, mac_address=f"fa:16:3e:ff:00:{number:02x}", addresses=[f"10.{number}.0.2"])
    return NetworkDocument(
        id=key, name=f"net-{number}", bridge=f"brbench{number}", mtu=1450, segment=Segment(type="vxlan", id=number),
        subnets=[subnet], service=service,
    )  # fmt: skip


def guest(net: NetworkDocument, number: int, groups: list[str]) -> InstanceSpec:
    """Return the spec of a server with one interface on the network."""
    key = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{net.id} {number}"))
    prefix = net.subnets[0].cidr.rsplit(".", 2)[0]
    ref = NetworkRef(
        id=net.id, name=net.name, bridge=net.bridge, cidr=net.subnets[0].cidr, gateway=None, mtu=net.mtu,
        segment=net.segment, subnets=net.subnets,
    )  # fmt: skip
    port = PortRef(
        id=key, tap=f"tap{key[:11]}", network=ref, security_group_ids=groups,
        mac_address=f"fa:16:3e:{net.segment.id or 0:02x}:{number >> 8:02x}:{number & 255:02x}",
        fixed_ips=[FixedAddress(address=f"{prefix}.{1 + (number >> 8)}.{number & 255}", prefix_length=16)],
    )  # fmt: skip
    image = ImageRef(id=key, name="", disk_format="raw", size=0, hash_algo="sha512", hash_value="")
    return InstanceSpec(
        uuid=key, name=f"vm-{number}", hostname=f"vm-{number}", project_id="0" * 32, user_id="1" * 32, image=image,
        flavor=FlavorRef(name="m1", vcpus=1, memory_mb=64, root_gb=1), ports=[port],
    )  # fmt: skip


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def launches(network: LinuxNetwork, many: int) -> dict[str, list[float]]:
    """Return the seconds that the host's network needs for launches: for the first guest on a network, and for later
    guests.
    """
    first: list[float] = []
    more: list[float] = []

    def join(spec: InstanceSpec) -> None:
        network.plug(spec)
        network.apply_firewall(spec)

    group = str(uuid.uuid4())
    network.apply(SecurityGroupDocument(id=group, rules=[EGRESS, OPEN]), 1)
    for number in range(1, 6):
        net = document(number)
        network.apply(net, 1)
        for guest_number in range(1, many + 1):
            spec = guest(net, guest_number, [group])
            spent = timed(partial(join, spec))
            (more if guest_number > 1 else first).append(spent)
    return {"first": first, "more": more}


def effects(network: LinuxNetwork, changes: int) -> list[float]:
    """Apply a group's new spec, which allows connections, many times; return the seconds until two guests are
    connected.
    """
    net, group = document(50), str(uuid.uuid4())
    network.apply(net, 1)
    network.apply(SecurityGroupDocument(id=group, rules=[EGRESS]), 1)
    specs = [guest(net, number, [group]) for number in (1, 2)]
    for spec in specs:
        network.plug(spec)
        network.apply_firewall(spec)
        plug_in(spec)
    with namespace.inside("bench-2"):
        server = socket.create_server(("", PORT))
    found = []
    with server:
        for number in range(changes):
            network.apply(SecurityGroupDocument(id=group, rules=[EGRESS]), 2 * number + 2)
            time.sleep(1)
            began = time.perf_counter()
            network.apply(SecurityGroupDocument(id=group, rules=[EGRESS, OPEN]), 2 * number + 3)
            until_connected(specs[1].ports[0].fixed_ips[0].address)
            found.append(time.perf_counter() - began)
    return found


def plug_in(spec: InstanceSpec) -> None:
    """Create a namespace that replaces the guest."""
    (port,) = spec.ports
    name = f"bench-{spec.name.removeprefix('vm-')}"
    namespace.ensure(name)
    address = f"{port.fixed_ips[0].address}/16"
    for words in (
        ("link", "add", port.tap, "type", "veth", "peer", "name", "eth0", "netns", str(namespace.FOLDER / name)),
        ("link", "set", port.tap, "master", port.network.bridge, "up"),
        ("-n", name, "link", "set", "eth0", "address", port.mac_address, "up"),
        ("-n", name, "addr", "add", address, "dev", "eth0"),
    ):
        subprocess.run(["ip", *words], check=True)


def until_connected(address: str) -> None:
    """Try to connect until it succeeds, each time with a new connection, because the kernel repeats an attempt only
    after a second.
    """
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        with namespace.inside("bench-1"):
            client = socket.socket()
        with client:
            client.settimeout(0.05)
            try:
                client.connect((address, PORT))
            except OSError:
                time.sleep(PAUSE)
                continue
            return
    raise SystemExit("a rule has no effect")


def rulesets(many: int) -> dict[str, list[float]]:
    """Return the seconds of loading filters: of ``many`` guests with different groups, of one changed rule, and of an
    additional guest on a host with ``many`` guests and on a host with one.
    """
    rules = [
        SecurityRule(direction="ingress", protocol="tcp", port_range_min=1000 + at, port_range_max=1000 + at)
        for at in range(RULES - 1)
    ]
    groups = [str(uuid.uuid4()) for _ in range(many + COMERS)]
    documents = {key: SecurityGroupDocument(id=key, rules=[EGRESS, *rules]) for key in groups}
    net = document(90)
    specs = [guest(net, number, [key]) for number, key in enumerate(groups)]
    ports = tuple(LocalPort(spec.uuid, spec.hostname, spec.ports[0]) for spec in specs)

    def wanted(some: int, changed: SecurityGroupDocument | None = None) -> DesiredState:
        known = {key: documents[key] for key in groups[:some]} | ({changed.id: changed} if changed else {})
        return DesiredState(ports=ports[:some], networks={net.id: net}, security_groups=known)

    found: dict[str, list[float]] = {"whole": [], "one": [], "beside": [], "beside one": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            filters = Filters(Path(folder))
            found["whole"].append(timed(partial(filters.apply, wanted(many))))
            for number, key in enumerate(groups[:5]):
                changed = SecurityGroupDocument(id=key, rules=[EGRESS, *rules, OPEN][: RULES - number % 2])
                found["one"].append(timed(partial(filters.apply, wanted(many, changed))))
        for beside, some in (("beside", many), ("beside one", 1)):
            filters.apply(wanted(some))
            for number in range(1, COMERS + 1):
                found[beside].append(timed(partial(filters.apply, wanted(some + number))))
    return found


def main() -> None:
    """Print all measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--guests", type=int, default=GUESTS)
    parser.add_argument("--changes", type=int, default=30)
    options = parser.parse_args()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    found: dict[str, list[float]] = rulesets(options.guests)
    with tempfile.TemporaryDirectory() as folder:
        settings = AgentSettings(host="bench", state_dir=Path(folder), underlay_address="127.0.0.1")
        network = LinuxNetwork(settings)
        network.init_host()
        try:
            found |= launches(network, 10)
            found["effect"] = effects(network, options.changes)
        finally:
            network.restore([])
            for owned in network.documents():
                network.forget(owned.subject_kind, owned.subject_id)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
