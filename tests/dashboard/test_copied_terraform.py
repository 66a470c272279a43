"""The lines of *Copy as* for Terraform have only arguments of the provider's schema, and those that it requires."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from portal.dashboard.copy_as.calls import IMPLIED, Call, Kind, Result, Secret
from portal.dashboard.copy_as.forms import terraform
from portal.dashboard.copy_as.forms.place import Place
from portal.dashboard.copy_as.kinds import compute, identity, image, network, quotas, storage

RESOURCE = re.compile(r'^resource "(\w+)" "[^"]+" \{\n(.*?)^\}\n', re.MULTILINE | re.DOTALL)
ARGUMENT = re.compile(r"^  (\w+) += (.*)", re.MULTILINE)
NUMBER = re.compile(r'"?(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"?')
"""The number of a protocol, which the provider accepts instead of its name."""
BLOCK = re.compile(r"^  (\w+) \{\n(.*?)^  \}\n", re.MULTILINE | re.DOTALL)
INNER = re.compile(r"^    (\w+) += ", re.MULTILINE)
ASSIGNMENTS = {
    f"{actor} {on_domain}": identity.assignment(actor, on_domain=on_domain)
    for actor in ("user", "group")
    for on_domain in (False, True)
}
KINDS: Mapping[str, Kind] = {
    f"{module.__name__.rpartition('.')[2]} {name}": kind
    for module in (compute, identity, image, network, quotas, storage)
    for name, kind in vars(module).items()
    if isinstance(kind, Kind) and kind.terraform not in {None, IMPLIED}
} | ASSIGNMENTS


@cache
def schema() -> dict[str, dict[str, str]]:
    """Return resource → argument → its mark: ``!``, ``*``, ``{}``, or the arguments of a block in brackets."""
    lines = (Path(__file__).parent / "terraform_schema.txt").read_text().splitlines()
    rows = (line.split(" ", 1) for line in lines if line[0] not in "#?")
    return {name: arguments(text) for name, text in rows}


@cache
def rules() -> dict[str, list[str]]:
    """Return resource → the rules of its values."""
    lines = (Path(__file__).parent / "terraform_schema.txt").read_text().splitlines()
    rows = (line.split(" ") for line in lines if line.startswith("?"))
    return {name: result for _, name, *result in rows}


def broken(resource: str, given: Mapping[str, str]) -> Iterator[str]:
    """Yield the rules that the values of a resource break."""
    for rule in rules().get(resource, ()):
        name, equals, values = rule.partition("=")
        first, needs, other = rule.partition(">")
        if equals:
            value = given.get(name, "")
            number = name == "protocol" and NUMBER.fullmatch(value)
            literal = re.fullmatch(r'"?([\w-]+)"?', value)
            if literal and not number and literal[1] not in values.split(","):
                yield f"{resource} {name} is {value}"
        elif needs:
            if first in given and other not in given:
                yield f"{resource} {rule}"
        elif len(given.keys() & set(rule.split("|"))) > 1:
            yield f"{resource} {rule}"


def arguments(text: str) -> dict[str, str]:
    return {match[1]: match[2] for match in re.finditer(r"(\w+)(!?(?:\*|\{\}|\[[^\]]*\])?)", text)}


def problems(text: str) -> list[str]:
    """Return what the provider would not accept."""
    result = []
    for resource, body in RESOURCE.findall(text):
        known = schema().get(resource)
        if known is None:
            result.append(f"{resource} does not exist")
            continue
        values = dict(ARGUMENT.findall(BLOCK.sub("", body)))
        plain = [*values]
        blocks = BLOCK.findall(body)
        result += [f"{resource}.{name}" for name in plain if "[" in known.get(name, "[")]
        result += [f"{resource} lacks {name}" for name in _required(known) - {*plain, *(name for name, _ in blocks)}]
        result += broken(resource, values | dict(blocks))
        for name, inner in blocks:
            mark = known.get(name, "")
            own = arguments(mark[mark.find("[") :]) if "[" in mark else {}
            used = set(INNER.findall(inner))
            result += [f"{resource}.{name}.{each}" for each in used - own.keys()]
            result += [f"{resource}.{name} lacks {each}" for each in _required(own) - used]
    return result


def _required(known: Mapping[str, str]) -> set[str]:
    return {name for name, mark in known.items() if mark.startswith("!")}


def lines(*calls: Call) -> str:
    return terraform.write(calls, Place("novella", {}))


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_only_names_of_the_provider(name: str) -> None:
    kind = KINDS[name]
    known = schema()[str(kind.terraform)]
    for each in kind.attributes:
        if each.terraform in {None, IMPLIED, ""}:
            continue
        first, _, rest = str(each.terraform).partition(".")
        assert first in known, each.name
        assert each.block == ("[" in known[first]), f"{each.name}: a block, or not"
        assert not rest or "{}" in known[first], f"{each.name}: not a map"
    assert kind.extra.get("terraform", {}).keys() <= known.keys()
    given = {str(each.terraform).partition(".")[0] for each in kind.attributes} | kind.extra.get("terraform", {}).keys()
    assert _required(known) <= given


SERVER = {
    "name": "web",
    "image_id": "i",
    "flavor_id": "f",
    "networks": [{"uuid": "n", "fixed_ip": "10.0.0.9"}, {"port": "p"}],
    "devices": [
        {"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1, "uuid": "u"},
        {"source_type": "image", "destination_type": "local", "boot_index": 0, "delete_on_termination": True},
    ],
    "server_group": "g",
    "metadata": {"a": "b"},
    "tags": ["x"],
    "password": Secret("password"),
    "user_data": "#!/bin/sh",
    "security_groups": ["s"],
    "security_group_names": ["default"],
    "config_drive": True,
    "key_name": "k",
}


@pytest.mark.parametrize(
    "calls",
    [
        [Call(compute.SERVER, SERVER)],
        [Call(compute.SERVER, {**SERVER, "networks": [], "no_network": True})],
        [port := Call(network.PORT, {
            "network_id": "n",
            "fixed_ips": [{"subnet_id": "s", "ip_address": "10.0.0.9"}],
            "allowed_address_pairs": [{"ip_address": "10.0.0.99", "mac_address": "fa:16:3e:00:00:01"}],
            "extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}],
        }), Call(network.FLOATING_IP, {"network_id": "n", "network_name": "net", "port_id": Result(port)})],
        [Call(identity.APPLICATION_CREDENTIAL, {
            "name": "c",
            "roles": ["member"],
            "access_rules": [{"path": "/v2.1/servers", "method": "GET", "service": "compute"}],
        })],
        [Call(identity.EC2_CREDENTIAL, {"user_id": "u", "project_id": "p"})],
    ],
    ids=lambda calls: " ".join(call.kind.key for call in calls),
)  # fmt: skip
def test_blocks_and_values_are_written_as_the_provider_reads_them(calls: Sequence[Any]) -> None:
    assert problems(lines(*calls)) == []


def test_a_wrong_name_is_found() -> None:
    text = lines(Call(compute.KEY_PAIR, {"name": "k"})).replace("  name ", "  title ")
    resource = "openstack_compute_keypair_v2"
    assert problems(text) == [f"{resource}.title", f"{resource} lacks name"]


@pytest.mark.parametrize(
    ("resource", "lines", "found"),
    [
        ("blockstorage_volume_v3", ["size = 1", 'image_id = "i"', 'snapshot_id = "s"'], 1),
        ("blockstorage_volume_v3", ["size = 1", 'image_id = "i"'], 0),
        ("networking_secgroup_rule_v2", ['protocol = "icmpv6"'], 1),
        ("networking_secgroup_rule_v2", ['protocol = "112"'], 0),
        ("networking_secgroup_rule_v2", ['protocol = "tcp"', "port_range_min = 22"], 1),
        ("networking_secgroup_rule_v2", ['protocol = "tcp"', "port_range_min = 22", "port_range_max = 22"], 0),
    ],
)
def test_values_that_the_provider_rejects_are_found(resource: str, lines: list[str], found: int) -> None:
    name = f"openstack_{resource}"
    given = dict(ARGUMENT.findall("".join(f"  {line}\n" for line in lines)))
    assert len(list(broken(name, given))) == found


def test_values_are_aligned_as_terraform_fmt_does_it() -> None:
    metadata = {"a": "b", "longer": "c"}
    text = lines(Call(compute.SERVER, {"name": "w", "flavor_id": "f", "metadata": metadata, "tags": ["x"]}))
    whole = """\
  name      = "w"
  flavor_id = "f"
  metadata = {
    "a"      = "b"
    "longer" = "c"
  }
  tags = ["x"]
"""
    assert whole in text
