"""The number of queries of each action that only reads does not depend on the number of records: it is in
``query_baseline.txt``, for few records and for many.

Requests have the arguments of ``guesses``, so a new action is included automatically. After an intended change, renew
the file with ``WRITE_QUERY_BASELINE=1`` and check the difference.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from compute_agent.contract.calls import ConsoleOutput
from portal.api.ec2 import urls
from portal.api.ec2.actions.every import ACTIONS
from provisioning.compute.models import BlockDevice, Instance, KeyPair
from provisioning.ec2 import ids, tags
from provisioning.ec2.kinds import KINDS
from provisioning.hosts import calls
from provisioning.hosts.models import Host
from provisioning.identity.services.ec2 import create_ec2_credential
from provisioning.images.models import Image, ImageMember
from provisioning.network.models import (
    AddressGroup,
    FloatingIP,
    InternetGateway,
    Network,
    Port,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from provisioning.network.records.owners import ROUTER_GATEWAY, ROUTER_INTERFACE
from provisioning.volumes.models import Attachment, Snapshot, StoragePool, Volume, VolumeType
from tests.compute_api.test_query_baseline import World
from tests.ec2_api.things import guesses
from tests.support.cast import People, Person
from tests.support.ec2 import OK, Keys, ask, pairs_of

__all__ = ["urls"]
pytestmark = pytest.mark.django_db

BASELINE = Path(__file__).with_name("query_baseline.txt")
SIZES = (2, 12)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm0Ks0KqTPHDqyPZoQmJLoJUD6JsGRXSh9ARV3yZxvV"
AUTHENTICATED = 2
"""Queries that say who asks: the key, and what it is worth now."""


class Ec2World(World):
    """Records of one project that grow together, with all that EC2 shows of them."""

    def grow(self, size: int) -> None:
        super().grow(size)
        tags.write(self.owner.project_id, list(_things_of(self.owner)), {"Name": f"x{size}"})

    def _add(self, number: int) -> None:
        super()._add(number)
        self._add_volume(number)
        self._add_routing(number)
        mine = {"project_id": self.owner.project_id}
        group = SecurityGroup.objects.get(name=f"sg{number}")
        for ends in ((22, 22), (80, 81)):
            SecurityGroupRule.objects.create(
                group=group, direction="ingress", protocol="tcp", port_range_min=ends[0], port_range_max=ends[1]
            )
        AddressGroup.objects.create(**mine, name=f"ag{number}", addresses=["192.0.2.1/32"])
        KeyPair.objects.filter(name=f"k{number}").update(public_key=KEY)
        image = Image.objects.get(name=f"i{number}")
        ImageMember.objects.create(image=image, project_id=uuid.uuid4())
        Instance.objects.filter(name=f"s{number}").update(image_id=image.id, reservation_id=f"r-{number:08}")

    def _add_volume(self, number: int) -> None:
        mine, now = {"project_id": self.owner.project_id}, timezone.now()
        server = Instance.objects.get(name=f"s{number}")
        kind = VolumeType.objects.get_or_create(name="usual")[0]
        pool = StoragePool.objects.create(name=f"p{number}", driver="fake")
        pool.hosts.add(Host.objects.get(name=f"h{number}"), through_defaults={"last_seen_at": now})
        volume = Volume.objects.create(
            **mine, name=f"v{number}", size_gb=1, status="in-use", pool=pool, volume_type=kind
        )
        Snapshot.objects.create(**mine, volume=volume, name=f"n{number}", size_gb=1, status="available")
        attachment = Attachment.objects.create(
            **mine, volume=volume, instance_id=server.id, status="attached", mountpoint="/dev/vdb", attached_at=now
        )
        BlockDevice.objects.create(
            instance=server,
            source_type="volume",
            destination_type="volume",
            volume_id=volume.id,
            attachment_id=attachment.id,
            device_name="/dev/vdb",
            plugged=True,
        )

    def _add_routing(self, number: int) -> None:
        mine = {"project_id": self.owner.project_id}
        network = Network.objects.get(name=f"n{number}")
        outside, _ = Network.objects.get_or_create(
            name="outside", defaults={**mine, "bridge": "brx", "external": True, "shared": True}
        )
        subnet = Subnet.objects.get(network=network)
        gateway = self._port(outside, ROUTER_GATEWAY)
        routes = [{"destination": f"10.9.{number}.0/24", "nexthop": "10.0.0.1"}]
        router = Router.objects.create(**mine, name=f"r{number}", gateway_port=gateway, routes=routes)
        InternetGateway.objects.create(**mine, router=router, made=False)
        Port.objects.filter(pk=gateway.pk).update(device_id=router.id)
        inside = self._port(network, ROUTER_INTERFACE, router.id)
        inside.fixed_ips.create(subnet=subnet, address="10.0.0.254", number=10_000 + number)
        guest = Port.objects.get(device_id=Instance.objects.get(name=f"s{number}").id, network=network)
        FloatingIP.objects.create(
            **mine,
            network=outside,
            port=self._port(outside, "network:floatingip"),
            address=f"203.0.113.{number}",
            fixed_port=guest,
            fixed_address=f"10.0.0.{number}",
            router=router,
        )

    def _port(self, network: Network, owner: str, device: uuid.UUID | None = None) -> Port:
        return Port.objects.create(
            project_id=self.owner.project_id,
            network=network,
            device_owner=owner,
            device_id=device,
            mac_address=uuid.uuid4().hex[:17],
        )


def _things_of(owner: Person) -> Iterator[tuple[str, uuid.UUID]]:
    """Yield the kind and the resource of everything that the owner has."""
    for kind in KINDS:
        mine = {"project_id": owner.project_id}
        if kind.model is SecurityGroupRule:
            mine = {"group__project_id": owner.project_id}
        elif kind.model is KeyPair:
            mine = {"user_id": owner.user_id}
        for key in kind.model._default_manager.filter(**mine).values_list("pk", flat=True):
            yield kind.prefix, uuid.UUID(int=key) if isinstance(key, int) else key


def _filled(arguments: dict[str, Any], owner: Person) -> dict[str, Any]:
    """Put the first thing's id of each kind into the place of ``<i>`` and so on."""
    first: dict[str, str] = {}
    for prefix, resource in _things_of(owner):
        first.setdefault(prefix, ids.id_of(prefix, resource))
    text = re.sub(r"<([\w-]+)>", lambda found: first.get(found[1], found[0]), json.dumps(arguments))
    return dict(json.loads(text))


def _shown() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every action that only shows, with arguments."""
    for name in sorted(ACTIONS):
        if not ACTIONS[name].changes:
            yield from ((name, arguments) for arguments in guesses(ACTIONS[name]))


def _counted(keys: Keys, requests: list[tuple[str, str, dict[str, Any]]]) -> dict[str, int]:
    """Return the queries of each request that shows something; what has no id of EC2 yet has been given one."""
    client, result = Client(), {}
    for line, name, arguments in requests:
        pairs = pairs_of(name, arguments)
        if ask(client, keys, name, pairs).code != OK:
            continue
        with CaptureQueriesContext(connection) as queries:
            ask(client, keys, name, pairs)
        result[line] = len(queries)
    return result


@pytest.mark.slow
def test_what_shows_something_costs_what_the_baseline_says(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "call", lambda *_, **__: ConsoleOutput(text="x"))
    world, keys = Ec2World(people.alice), Keys(*create_ec2_credential(people.alice.user, people.alice.project))
    world.grow(SIZES[0])
    requests = [
        (f"{name} {json.dumps(arguments)}".removesuffix(" {}"), name, _filled(arguments, people.alice))
        for name, arguments in _shown()
    ]
    few = _counted(keys, requests)
    silent = {name for name, _ in _shown()} - {line.split()[0] for line in few}
    assert not silent, (
        "nobody sees what these show: Ec2World has nothing for them, or the arguments of guesses are wrong"
    )
    world.grow(SIZES[1])
    many = _counted(keys, requests)
    grown = {line: (few[line], many[line]) for line in few if many[line] > few[line]}
    lines = [f"{line:<90} {few[line]:>3} {many[line]:>3}" for line in sorted(few)]
    if os.environ.get("WRITE_QUERY_BASELINE"):
        BASELINE.write_text("\n".join(lines) + "\n")
    held = BASELINE.read_text().splitlines()
    assert not grown, "these ask the database more often the more there is"
    different = sorted(set(lines) ^ set(held))
    assert not different, "if it is meant: WRITE_QUERY_BASELINE=1"


def test_who_asks_costs_two_queries(people: People, django_assert_num_queries: Any) -> None:
    keys = Keys(*create_ec2_credential(people.alice.user, people.alice.project))
    with django_assert_num_queries(AUTHENTICATED):
        assert ask(Client(), keys, "DescribeRegions", []).code == OK
