"""Texts of every API come back exactly as they were sent: what is created is read again and compared."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from provisioning.volumes.models import VolumeType
from tests.compute_api.conftest import NEWEST
from tests.support.cast import Api, People, Person
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db
ODD = "two  blanks, é, 👩\u200d💻, <b> & \"quotes\" '%s' \\n {x} ${y}"
LINES = f"first\n\n\tthird\r\n{ODD}\n"
LONG = "x" * 255
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
    """The address to read it at, if not by its id below ``path``."""


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


def _filled(value: Any, cloud: Cloud, person: Person) -> Any:
    ids = {"IMAGE": str(cloud.image.id), "NETWORK": str(cloud.network.id), "ME": person.user_id.hex}
    return ids.get(value, "none" if value == "auto-none" else value) if isinstance(value, str) else value


@pytest.mark.parametrize("kind", ROWS)
def test_a_text_comes_back(people: People, cloud: Cloud, kind: str) -> None:
    row = ROWS[kind]
    VolumeType.objects.get_or_create(name="standard")
    person: Person = getattr(people, row.by)
    api = Api(person, **(NEWEST if row.path.startswith("/compute") else {}))
    body = {key: _filled(value, cloud, person) for key, value in (row.more or {}).items()}
    body |= row.sent
    answer = api.post(row.path, {row.name: body} if row.name else body)
    assert answer.status_code in {200, 201, 202}, answer.content
    made = answer.json()[row.name] if row.name else answer.json()
    shown = api.get(f"{row.path}/{made['id']}").json()
    found = shown[row.name] if row.name else shown
    for name, sent in row.sent.items():
        want = sorted(sent) if name == "tags" else sent
        got = sorted(found[name]) if name == "tags" else found[name]
        assert got == want, name
