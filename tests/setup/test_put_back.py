"""A copy of the database put back over a cloud that has gone on, by the commands of the operators' guide.

Nothing that hosts have is lost, and whatever differs from the records is named by the doctor.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from compute_agent.contract.network import FLOATING_IP, ROUTER, SECURITY_GROUP
from tests.e2e.sdk_proxies import connect
from tests.support.one_machine import OneMachine, wait_for
from tests.support.put_back import Failover, Kept, Postgresql, Sqlite
from tools.chaos.checks.journals import Hypervisors, Seen

HOSTS = ("sim-1", "sim-2")
SETTINGS = {"NOVELLA_AUDIT_INTERVAL": "5", "NOVELLA_SHELVED_OFFLOAD_TIME": "0"}
FAR = "198.51.100.0/24"
SERVERS = ("kept", "stopped", "shelved", "moved", "rebuilt", "resized", "deleted", "holder")
VOLUMES = ("attached", "detached", "extended", "snapshotted", "dropped")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]


@dataclass
class Town:
    """The resources of an owner, by the names that it is given here."""

    cloud: OneMachine
    kept: Kept
    servers: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """Networks, router, group and floating IPs."""

    @property
    def sdk(self) -> Connection:
        return connect(self.cloud)

    def seen(self) -> Seen:
        """Guests and data of the hosts now."""
        return Hypervisors(self.cloud.data / "hosts", list(HOSTS)).seen()

    def server(self, name: str) -> Any:
        return self.sdk.compute.get_server(self.servers[name])

    def launch(self, *names: str, network: str = "inner") -> None:
        compute = self.sdk.compute
        image, flavor = self.sdk.image.find_image("novella-guest"), compute.find_flavor("m1.nano")
        for name in names:
            made = compute.create_server(
                name=name,
                image_id=image.id,
                flavor_id=flavor.id,
                networks=[{"uuid": self.ids[network]}],
                security_groups=[{"name": "web"}],
            )
            self.servers[name] = made.id
        for name in names:
            self.becomes(name, "ACTIVE")

    def becomes(self, name: str, status: str) -> None:
        def there() -> bool:
            result = self.server(name)
            assert result.status in (status, "ERROR") or result.task_state != "error"
            return bool(result.status == status and result.task_state is None)

        wait_for(f"{name} becomes {status}", there)

    def volume(self, name: str) -> Any:
        return self.sdk.block_storage.get_volume(self.volumes[name])

    def make_volumes(self, *names: str) -> None:
        for name in names:
            self.volumes[name] = self.sdk.block_storage.create_volume(name=name, size=1).id
        for name in names:
            wait_for(f"volume {name}", lambda name=name: self.volume(name).status == "available")

    def attach(self, name: str) -> None:
        self.sdk.compute.create_volume_attachment(self.servers["holder"], volume_id=self.volumes[name])
        wait_for(f"volume {name} is attached", lambda: self.volume(name).status == "in-use")

    def detach(self, name: str) -> None:
        self.sdk.compute.delete_volume_attachment(self.servers["holder"], self.volumes[name])
        wait_for(f"volume {name} is detached", lambda: self.volume(name).status == "available")

    def allow(self, port: int) -> None:
        rule = self.sdk.network.create_security_group_rule(
            security_group_id=self.ids["group"],
            direction="ingress",
            ether_type="IPv4",
            protocol="tcp",
            port_range_min=port,
            port_range_max=port,
        )
        self.ids[f"rule {port}"] = rule.id

    def port_of(self, name: str) -> str:
        return next(iter(self.sdk.network.ports(device_id=self.servers[name]))).id

    def address_of(self, name: str) -> str:
        (port,) = self.sdk.network.ports(device_id=self.servers[name])
        return str(port.fixed_ips[0]["ip_address"])

    def reshelve(self, name: str, *, elsewhere: bool) -> None:
        """Take a server off its host and bring it back there, or to the other host."""
        here = self.server(name).compute_host
        closed = here if elsewhere else next(host for host in HOSTS if host != here)
        service = next(each for each in self.sdk.compute.services(host=closed, binary="nova-compute"))
        self.sdk.compute.disable_service(service, closed, "nova-compute")
        self.sdk.compute.shelve_server(self.servers[name])
        self.becomes(name, "SHELVED_OFFLOADED")
        self.sdk.compute.unshelve_server(self.servers[name])
        self.becomes(name, "ACTIVE")
        self.sdk.compute.enable_service(service, closed, "nova-compute")
        assert (self.server(name).compute_host != here) is elsewhere

    def notified(self, kind: str, name: str) -> list[Any]:
        """The newest document of each host that knows of it."""
        result = [known.get((kind, self.ids[name])) for known in self.seen().reported.values()]
        return [each for each in result if each is not None]

    def passes(self) -> list[set[Any]]:
        """Rules and routes of the hosts: TCP ports, routes, the address behind the floating IP."""
        groups, routers = self.notified(SECURITY_GROUP, "group"), self.notified(ROUTER, "router")
        return [
            {frozenset(rule.port_range_min for rule in group.rules if rule.protocol == "tcp") for group in groups},
            {tuple(route.destination for route in router.routes) for router in routers},
            {floating.fixed_address for floating in self.notified(FLOATING_IP, "floating IP")},
        ]

    def doctor(self) -> str:
        """The doctor's findings, as one text."""
        command = "NOVELLA_DATA=$DATA .venv/bin/python manage.py doctor --json --pause 1 || true"
        report = json.loads(self.kept.run(command))
        return "\n".join(f"{each['check']}: {each['subject']}: {each['sentence']}" for each in report["findings"])


def before(town: Town) -> None:
    """The cloud when the copy is made."""
    network = town.sdk.network
    town.ids["group"] = network.create_security_group(name="web").id
    town.allow(22)
    for name, cidr in (("inner", "10.77.0.0/24"), ("outer", "203.0.113.0/24")):
        more = {"is_router_external": True} if name == "outer" else {}
        town.ids[name] = network.create_network(name=name, **more).id
        subnet = network.create_subnet(network_id=town.ids[name], ip_version=4, cidr=cidr, name=name)
        town.ids[f"{name} subnet"] = subnet.id
    way_out = {"network_id": town.ids["outer"]}
    town.ids["router"] = network.create_router(name="way", external_gateway_info=way_out).id
    network.add_interface_to_router(town.ids["router"], subnet_id=town.ids["inner subnet"])
    town.launch(*SERVERS)
    address = network.create_ip(floating_network_id=town.ids["outer"], port_id=town.port_of("kept"))
    town.ids["floating IP"] = address.id
    town.make_volumes(*VOLUMES)
    town.attach("detached")


def afterwards(town: Town) -> None:
    """How the cloud goes on after the copy."""
    network, compute = town.sdk.network, town.sdk.compute
    network.delete_security_group_rule(town.ids["rule 22"])
    town.allow(3389)
    town.allow(5432)
    network.update_ip(town.ids["floating IP"], port_id=town.port_of("stopped"))
    route = {"destination": FAR, "nexthop": "10.77.0.250"}
    network.update_router(town.ids["router"], routes=[route])
    town.ids["late"] = network.create_network(name="late").id
    network.create_subnet(network_id=town.ids["late"], ip_version=4, cidr="10.78.0.0/24")
    town.launch("new", network="late")
    town.reshelve("shelved", elsewhere=False)
    town.reshelve("moved", elsewhere=True)
    compute.stop_server(town.servers["stopped"])
    town.becomes("stopped", "SHUTOFF")
    compute.rebuild_server(town.servers["rebuilt"], image=town.sdk.image.find_image("novella-guest").id)
    town.becomes("rebuilt", "ACTIVE")
    compute.resize_server(town.servers["resized"], compute.find_flavor("m1.micro").id)
    town.becomes("resized", "VERIFY_RESIZE")
    compute.confirm_server_resize(town.servers["resized"])
    town.becomes("resized", "ACTIVE")
    compute.delete_server(town.servers["deleted"])
    wait_for("it is deleted", lambda: town.servers["deleted"] not in town.seen().domains)
    volumes = town.sdk.block_storage
    town.attach("attached")
    town.detach("detached")
    volumes.extend_volume(town.volumes["extended"], 3)
    wait_for("it is extended", lambda: town.volume("extended").size == 3)
    snapshot = volumes.create_snapshot(volume_id=town.volumes["snapshotted"], name="late")
    wait_for("the snapshot", lambda: volumes.get_snapshot(snapshot.id).status == "available")
    town.ids["snapshot"] = snapshot.id
    volumes.delete_volume(town.volumes["dropped"])
    wait_for("it is gone", lambda: not any(town.volumes["dropped"] in pool for pool in town.seen().pools.values()))
    town.make_volumes("late")


def lost(had: Seen, has: Seen) -> list[str]:
    """Guests and data that hosts have lost."""
    gone = [
        f"guest {key} of {where}" for key, (where, _) in had.domains.items() if has.domains.get(key, "")[:1] != (where,)
    ]
    gone += [f"disk of {key}" for key in had.kept.keys() - has.kept.keys()]
    for pool, volumes in had.pools.items():
        for key, volume in volumes.items():
            now = has.pools[pool].get(key, {"size": 0, "snapshots": {}, "clients": []})
            gone += [f"data of {key}"] * (now["size"] < volume["size"])
            gone += [f"snapshot {each} of {key}" for each in volume["snapshots"].keys() - now["snapshots"].keys()]
            still = {each["attachment_id"] for each in now.get("clients", [])}
            gone += [
                f"client {each} of {key}" for each in volume.get("clients", []) if each["attachment_id"] not in still
            ]
    return gone


def differences(town: Town, has: Seen) -> Iterator[str]:
    """The ids of whatever is otherwise on a host than in the records, as their owner sees them.

    Of volumes and snapshots without a record nobody asks here: pools of simulated hosts have no data.
    """
    servers = {each.id: each for each in town.sdk.compute.servers(all_projects=True)}
    for key in has.domains.keys() - servers.keys():
        yield key
    for key, server in servers.items():
        host, domain = has.domains.get(key, ("", {}))
        on = server.status == "ACTIVE"
        if host != server.compute_host or on != (domain.get("power") == 1) or domain["memory_mb"] != server.flavor.ram:
            yield key
    pooled = {key: volume for pool in has.pools.values() for key, volume in pool.items()}
    for volume in town.sdk.block_storage.volumes(all_projects=True):
        stored = pooled.get(volume.id, {"size": 0})
        clients = {each["attachment_id"] for each in stored.get("clients", [])}
        if stored["size"] != volume.size << 30 or clients != {each["attachment_id"] for each in volume.attachments}:
            yield volume.id


@pytest.fixture(params=[Sqlite, Postgresql, Failover], ids=["sqlite", "postgresql", "failover"])
def town(request: pytest.FixtureRequest) -> Iterator[Town]:
    with tempfile.TemporaryDirectory(prefix="nv-put-back-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        cloud = OneMachine(folder / "data", simulate=len(HOSTS), settings=dict(SETTINGS))
        kept = request.param(cloud, folder)
        try:
            cloud.up()
            yield Town(cloud, kept)
        finally:
            cloud.end()
            kept.stop()


def test_nothing_is_lost_or_wrong_without_being_named(town: Town) -> None:
    before(town)
    town.kept.copy()
    afterwards(town)
    went_on = [{frozenset({3389, 5432})}, {(FAR,)}, {town.address_of("stopped")}]
    wait_for("hosts know the changes", lambda: town.passes() == went_on)
    had = town.seen()
    town.cloud.runs[-1].stop()
    assert "raised" in town.kept.put_back()
    town.cloud.up()
    moved_to = had.domains[town.servers["moved"]][0]
    wait_for("the record follows the server that moved", lambda: town.server("moved").compute_host == moved_to)
    holder = town.servers["holder"]
    wait_for(
        "the volume is the server's again",
        lambda: holder in {each["server_id"] for each in town.volume("attached").attachments},
    )
    as_before = [{frozenset({22})}, {()}, {town.address_of("kept")}]
    wait_for("hosts do what the records say", lambda: town.passes() == as_before)
    wait_for("the deleted server is found", lambda: town.server("deleted").status == "SHUTOFF")
    has = town.seen()
    assert lost(had, has) == []
    findings = town.doctor()
    unnamed = [key for key in differences(town, has) if key not in findings]
    assert unnamed == [], findings
    for name in ("shelved", "moved", "rebuilt", "resized"):
        assert f"newer_guests: instance {town.servers[name]}" in findings
    assert town.volume("extended").size == 3
    assert town.volume("dropped").status == "error"
    assert town.ids["late"] in findings
    for name in ("kept", "shelved", "moved", "rebuilt", "resized", "holder"):
        town.sdk.compute.reboot_server(town.servers[name], "HARD")
        town.becomes(name, "ACTIVE")
    assert lost(had, town.seen()) == []
    town.launch("afterwards")
