"""Texts of every API come back exactly as they were sent: what is created is read again and compared."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from provisioning.network import services as network
from provisioning.volumes.models import VolumeType
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.compute_api.conftest import NEWEST
from tests.support.cast import Api, People, Person
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db
ODD = "two  blanks, é, 👩\u200d💻, <b> & \"quotes\" '%s' \\n {x} ${y}"
LINES = f"first\n\n\tthird\r\n{ODD}\n"
NEWEST_OF = {"compute": NEWEST, "volume": {"OpenStack-API-Version": "volume 3.71"}}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm0Ks0KqTPHDqyPZoQmJLoJUD6JsGRXSh9ARV3yZxvV"
SCRIPT = base64.b64encode("#!/bin/sh\r\necho é\n\n".encode()).decode()


@dataclass(frozen=True)
class Row:
    """A resource: where it is created, how its body is named, and which texts it has."""

    path: str
    name: str
    sent: Mapping[str, Any]
    more: Mapping[str, Any] | None = None
    """Its other fields; ``IMAGE`` and ``NETWORK`` stand for ids of the cloud's."""
    by: str = "alice"
    shown: str = ""
    """What it is read by below ``path``, if not its id; a point: the path itself."""


V2, V3 = "/network/v2.0", "/volume/v3"
ROWS = {
    "server": Row(
        "/compute/v2.1/servers",
        "server",
        {
            "name": ODD,
            "description": ODD,
            "metadata": {"key with  blanks": LINES[:200], "k.e:": ODD, "empty": ""},
            "tags": ["a  b", "é👩"],
        },
        {"imageRef": "IMAGE", "flavorRef": "1", "networks": "auto-none", "user_data": SCRIPT},
    ),
    "flavor": Row(
        "/compute/v2.1/flavors",
        "flavor",
        {"name": "m1.é 👩", "description": "two  blanks é"},
        {"ram": 64, "vcpus": 1, "disk": 1},
        by="operator",
    ),
    "server group": Row("/compute/v2.1/os-server-groups", "server_group", {"name": "é 👩"}, {"policy": "affinity"}),
    "aggregate": Row("/compute/v2.1/os-aggregates", "aggregate", {"name": "é 👩 x"}, by="operator"),
    "network": Row(f"{V2}/networks", "network", {"name": ODD[:200], "description": LINES, "dns_domain": "Ex.Org."}),
    "security group": Row(f"{V2}/security-groups", "security_group", {"name": ODD, "description": LINES}),
    "router": Row(f"{V2}/routers", "router", {"name": ODD, "description": LINES}),
    "port": Row(
        f"{V2}/ports",
        "port",
        {"name": ODD, "description": LINES, "dns_name": "web-1", "device_id": ODD[:80], "device_owner": "me:é"},
        {"network_id": "NETWORK"},
    ),
    "subnet": Row(
        f"{V2}/subnets",
        "subnet",
        {
            "name": ODD,
            "description": LINES,
            "dns_nameservers": ["10.3.0.9", "10.3.0.8"],
            "host_routes": [{"destination": "10.4.0.7/24", "nexthop": "10.3.0.1"}],
        },
        {"network_id": "NETWORK", "cidr": "10.3.0.0/24", "ip_version": 4},
        by="operator",
    ),
    "address group": Row(f"{V2}/address-groups", "address_group", {"name": ODD, "description": LINES}),
    "subnet pool": Row(
        f"{V2}/subnetpools", "subnetpool", {"name": ODD, "description": LINES}, {"prefixes": ["10.9.0.0/16"]}
    ),
    "image": Row(
        "/image/v2/images",
        "",
        {
            "name": ODD[:200],
            "tags": ["a  b", "é"],
            "my  key": LINES,
            "empty": "",
            "os_distro": " x ",
        },
        {"disk_format": "raw", "container_format": "bare"},
    ),
    "floating IP": Row(f"{V2}/floatingips", "floatingip", {"description": LINES}, {"floating_network_id": "OUTSIDE"}),
    "security group rule": Row(
        f"{V2}/security-group-rules",
        "security_group_rule",
        {"description": ODD},
        {"security_group_id": "GROUP", "direction": "ingress"},
    ),
    "address scope": Row(f"{V2}/address-scopes", "address_scope", {"name": ODD}, {"ip_version": 4}),
    "flavor's specs": Row(
        "/compute/v2.1/flavors/1/os-extra_specs", "extra_specs", {"my:key": " two  blanks "}, by="operator", shown="."
    ),
    "key pair": Row("/compute/v2.1/os-keypairs", "keypair", {"public_key": f"{KEY}  é 👩\n"}, {"name": "k"}, shown="k"),
    "snapshot": Row(
        f"{V3}/snapshots",
        "snapshot",
        {"name": ODD, "description": ODD, "metadata": {"k  é": ODD}},
        {"volume_id": "VOLUME"},
    ),
    "transfer": Row(f"{V3}/volume-transfers", "transfer", {"name": ODD}, {"volume_id": "VOLUME"}),
    "group type": Row(
        f"{V3}/group_types",
        "group_type",
        {"name": "é  👩", "description": ODD, "group_specs": {"my_key": " two  blanks "}},
        by="operator",
    ),
    "domain": Row("/identity/v3/domains", "domain", {"name": "é  👩 x", "description": LINES}, by="operator"),
    "group": Row("/identity/v3/groups", "group", {"name": "é  👩 x", "description": LINES}, by="operator"),
    "region": Row("/identity/v3/regions", "region", {"description": LINES}, by="operator"),
    "service": Row(
        "/identity/v3/services", "service", {"name": "é  x", "description": LINES, "type": "my type"}, by="operator"
    ),
    "application credential": Row(
        "/identity/v3/users/ME/application_credentials",
        "application_credential",
        {"name": "é  x", "description": LINES},
        by="alice",
    ),
    "metadata namespace": Row(
        "/image/v2/metadefs/namespaces",
        "",
        {"namespace": "my  é", "display_name": ODD[:80], "description": LINES},
        by="operator",
        shown="my  é",
    ),
    "volume": Row(f"{V3}/volumes", "volume", {"name": ODD, "description": ODD, "metadata": {"k  é": ODD}}, {"size": 1}),
    "volume type": Row(
        f"{V3}/types",
        "volume_type",
        {"name": "é  👩", "description": ODD, "extra_specs": {"my_key": " two  blanks "}},
        by="operator",
    ),
    "qos": Row(f"{V3}/qos-specs", "qos_specs", {"name": "é  👩"}, by="operator"),
    "project": Row(
        "/identity/v3/projects",
        "project",
        {"name": "é  👩 x", "description": LINES, "tags": ["a  b"], "my_own": LINES},
        by="operator",
    ),
    "user": Row("/identity/v3/users", "user", {"name": "é  👩 x", "description": LINES, "email": "é@x"}, by="operator"),
    "role": Row("/identity/v3/roles", "role", {"name": "é  👩 x", "description": LINES}, by="operator"),
    "credential": Row("/identity/v3/credentials", "credential", {"type": "cert", "blob": LINES}, {"user_id": "ME"}),
}


def outside(person: Person) -> str:
    """Return an external network."""
    assert person.project_id is not None
    made = network.create_network(person.project_id, "outside", external=True)
    network.create_subnet(made, "203.0.113.0/24", enable_dhcp=False)
    return str(made.id)


def group(person: Person) -> str:
    assert person.project_id is not None
    return str(network.create_security_group(person.project_id, "g").id)


def volume(person: Person, cloud: Cloud) -> str:
    agent = cloud.agents["h1"]
    if not agent.pools:
        agent.serve()
    made = Create.begin(person.context, VolumeRequest(size_gb=1))
    cloud.run()
    return str(made.id)


def _filled(value: Any, cloud: Cloud, person: Person) -> Any:
    """Return a value with the ids that its words stand for."""
    ids: dict[str, Callable[[], str]] = {
        "IMAGE": lambda: str(cloud.image.id),
        "NETWORK": lambda: str(cloud.network.id),
        "ME": lambda: person.user_id.hex,
        "OUTSIDE": lambda: outside(person),
        "GROUP": lambda: group(person),
        "VOLUME": lambda: volume(person, cloud),
        "auto-none": lambda: "none",
    }
    return ids[value]() if isinstance(value, str) and value in ids else value


@pytest.mark.parametrize("kind", ROWS)
def test_a_text_comes_back(people: People, cloud: Cloud, kind: str) -> None:
    row = ROWS[kind]
    VolumeType.objects.get_or_create(name="standard")
    person: Person = getattr(people, row.by)
    api = Api(person, **NEWEST_OF.get(row.path.split("/")[1], {}))
    body = {key: _filled(value, cloud, person) for key, value in (row.more or {}).items()}
    body |= row.sent
    path = row.path.replace("ME", person.user_id.hex)
    answer = api.post(path, {row.name: body} if row.name else body)
    assert answer.status_code in {200, 201, 202}, answer.content
    made = answer.json()[row.name] if row.name else answer.json()
    shown = api.get(path if row.shown == "." else f"{path}/{quote(row.shown or str(made['id']))}").json()
    result = shown[row.name] if row.name else shown
    for name, sent in row.sent.items():
        want = sorted(sent) if name == "tags" else sent
        got = sorted(result[name]) if name == "tags" else result[name]
        assert got == want, name
