"""Copy as: the requests of curl create what the form creates, and every form of the lines is safe and complete."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import pytest
import yaml
from django.db import transaction
from django.test import Client
from django.urls import get_resolver, reverse

from portal.dashboard.copy_as.calls import IMPLIED, Call, Result, Secret, edit
from portal.dashboard.copy_as.forms import curl, place, terraform
from portal.dashboard.copy_as.kinds import compute as compute_kinds
from portal.dashboard.copy_as.kinds import network as kinds
from portal.dashboard.copy_as.written import written
from portal.dashboard.frame import pages
from portal.dashboard.frame.pages import FormPage
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import BlockDevice, Flavor, Instance, InstanceAction, KeyPair, ServerGroup
from provisioning.hosts.models import Host
from provisioning.identity.models import (
    ApplicationCredential,
    Credential,
    Domain,
    Group,
    GroupMembership,
    ImpliedRole,
    Project,
    Role,
    RoleAssignment,
    User,
)
from provisioning.identity.services.domains import create_domain
from provisioning.identity.services.groups import create_group
from provisioning.identity.services.roles import create_role
from provisioning.images.models import Image, ImageMember
from provisioning.launches.plans.plan import LaunchPlan
from provisioning.launches.services import templates
from provisioning.network import services as network
from provisioning.network.models import (
    FixedIP,
    FloatingIP,
    Network,
    Port,
    PortForwarding,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest
from provisioning.quotas.models import QuotaLimit
from provisioning.quotas.services.limits import set_limits
from provisioning.volumes.models import Backup, Snapshot, Transfer, Volume, VolumeType
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, CreateSnapshot, SnapshotRequest
from provisioning.volumes.services.updates.transfers import create_transfer
from tests.dashboard.conftest import SignedIn
from tests.dashboard.test_copied_terraform import problems
from tests.dashboard.test_every_form import patterns
from tests.support.cast import People, Person
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

PLACE = place.Place("novella", {"network": "http://cloud"})
Things = Mapping[str, Any]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2vM0ZrzUqvpAMHrGe1iA2zJhbdOqMWgAb1hZ8RMhbO me@desk"
PASSWORD = "a-long-enough-Password-1"
HOSTILE = '-x\'; rm -rf "$HOME" `id` ${a} %{b} {{ c }} \\( \u202e\n!'


@dataclass(frozen=True)
class Case:
    """A form, what is typed into it, and the columns of the records that it creates or changes."""

    typed: Mapping[str, Any]
    rows: Mapping[type[Any], tuple[str, ...]]
    of: tuple[str, ...] = ()
    """Keys of the ids in the address."""


NETWORKS = {Network: ("name", "mtu", "shared", "external"), Subnet: ("cidr", "gateway_ip", "enable_dhcp")}
PORTS = {Port: ("name", "device_owner", "admin_state_up"), FixedIP: ("address",)}
VOLUMES = {Volume: ("name", "size_gb", "description")}
CASES: Mapping[str, Case] = {
    "volume_create": Case({"name": "data", "source": "empty", "size": "2", "description": "d"}, VOLUMES),
    "snapshot_create": Case({"name": "s"}, {Snapshot: ("name", "volume_id")}, ("volume",)),
    "backup_create": Case({"name": "b"}, {Backup: ("name", "volume_id")}, ("volume",)),
    "transfer_create": Case(
        {"name": "t", "with_snapshots": "on"}, {Transfer: ("name", "volume_id", "no_snapshots")}, ("volume",)
    ),
    "volume_extend": Case({"size": "4"}, {Volume: ("status",)}, ("volume",)),
    "volume_upload": Case({"name": "i", "disk_format": "raw"}, {Image: ("name", "disk_format")}, ("volume",)),
    "network_create": Case(
        {
            "name": "n",
            "cidr": "10.77.0.0/24",
            "cidr6": "fd12:3456:789a::/64",
            "ipv6_mode": "slaac",
            "mtu": "1400",
            "router": "router",
            **dict.fromkeys(("with_gateway", "enable_dhcp", "port_security_enabled", "admin_state_up", "shared"), "on"),
        },
        {**NETWORKS, Port: ("device_owner",)},
    ),
    "subnet_create": Case(
        {
            "cidr": "10.78.0.0/24",
            "name": "s",
            "gateway": "none",
            "allocation_pools": "10.78.0.9-10.78.0.20",
            "dns_nameservers": "9.9.9.9",
            "host_routes": "10.9.0.0/24 via 10.78.0.9",
        },
        {Subnet: ("name", "cidr", "gateway_ip", "enable_dhcp", "allocation_pools", "dns_nameservers", "host_routes")},
        ("network",),
    ),
    "port_create": Case(
        {
            "name": "p",
            "fixed_ips": "10.66.0.77",
            "admin_state_up": "on",
            "port_security_enabled": "on",
            "allowed_address_pairs": "10.66.0.99 fa:16:3e:00:00:01",
            "extra_dhcp_opts": "mtu 1400",
        },
        {Port: ("name", "allowed_address_pairs", "port_security_enabled", "extra_dhcp_opts"), FixedIP: ("address",)},
        ("network",),
    ),
    "router_create": Case(
        {
            "name": "r",
            "description": "d",
            "admin_state_up": "on",
            "gateway": "outside",
            "subnets": ["free_subnet"],
            "enable_snat": "",
        },
        {Router: ("name", "description", "enable_snat"), **PORTS},
    ),
    "router_gateway": Case({"gateway": "outside"}, {Router: ("enable_snat",)}, ("router",)),
    "router_interface_add": Case({"subnet": "free_subnet"}, PORTS, ("router",)),
    "router_route_add": Case(
        {"destination": "10.99.0.0/24", "nexthop": "10.66.0.9"}, {Router: ("routes",)}, ("router",)
    ),
    "floating_ip_allocate": Case({"network": "outside", "description": "d"}, {FloatingIP: ("description",)}),
    "floating_ip_associate": Case({"target": "fixed"}, {FloatingIP: ("fixed_address",)}, ("floating",)),
    "forwarding_add": Case(
        {"protocol": "tcp", "outside": "8000-8010", "inside": "", "target": "fixed"},
        {PortForwarding: ("protocol", "external_port_first", "external_port_last", "internal_port_first")},
        ("floating",),
    ),
    "security_group_create": Case({"name": HOSTILE, "stateful": ""}, {SecurityGroup: ("name", "stateful")}),
    "security_group_rule_add": Case(
        {"template": "web", "remote": "anywhere"},
        {
            SecurityGroupRule: (
                "direction",
                "ethertype",
                "protocol",
                "port_range_min",
                "port_range_max",
                "remote_ip_prefix",
            )
        },
        ("group",),
    ),
    "key_pair_create": Case({"name": "k", "how": "import", "public_key": KEY}, {KeyPair: ("name", "public_key")}),
    "flavor_create": Case(
        {"name": "f", "vcpus": "2", "memory_mb": "64", "root_gb": "0", "description": "d", "is_public": ""},
        {Flavor: ("name", "vcpus", "memory_mb", "root_gb", "description", "is_public")},
    ),
    "server_group_create": Case(
        {"name": "g", "policy": "anti-affinity", "max_server_per_host": "2"},
        {ServerGroup: ("name", "policy", "max_server_per_host")},
    ),
    "launch": Case(
        {
            "name": "web",
            "count": "2",
            "image": "image",
            "flavor": "flavor",
            "networks": ["own"],
            "user_data": "#!/bin/sh\nid",
            "tags": "a,b",
            "metadata": "role=web",
            "description": "d",
            "disks_size": "3",
            "disks_mount": "",
            "reachable": "on",
            "openings": "ssh",
            "config_drive": "on",
        },
        {
            Instance: ("name", "user_data", "tags", "metadata", "description", "config_drive"),
            BlockDevice: ("source_type", "destination_type", "size"),
            SecurityGroup: ("name",),
            FloatingIP: ("description",),
        },
    ),
    "instance_resize": Case({"flavor": "other_flavor"}, {InstanceAction: ("action",)}, ("server",)),
    "instance_snapshot": Case({"name": "i"}, {Image: ("name",)}, ("server",)),
    "instance_backup": Case({"name": "i", "backup_type": "daily", "rotation": "3"}, {Image: ("name",)}, ("server",)),
    "instance_lock": Case({"reason": "mine"}, {Instance: ("locked", "locked_reason")}, ("server",)),
    "instance_rebuild": Case({"image": "image", "key_name": "="}, {InstanceAction: ("action",)}, ("server",)),
    "instance_rescue": Case({"image": ""}, {InstanceAction: ("action",)}, ("server",)),
    "instance_attach_interface": Case({"target": "network:own"}, {InstanceAction: ("action",)}, ("server",)),
    "instance_tags": Case({"tags": "a\nb"}, {Instance: ("tags",)}, ("server",)),
    "instance_metadata": Case({"metadata": "role=web\nkept=it's"}, {Instance: ("metadata",)}, ("server",)),
    "server_attach": Case({"volume": "volume"}, {BlockDevice: ("volume_id",)}, ("server",)),
    "volume_attach": Case({"server": "server"}, {BlockDevice: ("volume_id",)}, ("volume",)),
    "image_upload": Case(
        {"name": "i", "disk_format": "qcow2", "min_disk": "2", "login": "debian", "visibility": "shared", "size": "9"},
        {Image: ("name", "disk_format", "min_disk", "visibility", "properties")},
    ),
    "image_share": Case({"project": "project"}, {ImageMember: ("project_id", "status")}, ("shared_image",)),
    "project_create": Case(
        {"name": "p", "description": "d", "tags": "a, b", "domain": "default"}, {Project: ("name", "description")}
    ),
    "user_create": Case(
        {
            "name": "eve",
            "how": "make",
            "domain": "default",
            "project": "wonderland",
            "role": "member",
            "email": "e@x.org",
        },
        {User: ("name", "email", "default_project_id"), RoleAssignment: ("role_id", "project_id")},
    ),
    "group_create": Case({"name": "g", "description": "d", "domain": "default"}, {Group: ("name", "description")}),
    "role_create": Case({"name": "r", "description": "d"}, {Role: ("name", "description")}),
    "domain_create": Case({"name": "d", "description": "x"}, {Domain: ("name", "description")}),
    "domain_edit": Case({"name": "d2", "description": "x"}, {Domain: ("name", "description")}, ("domain",)),
    "project_edit": Case(
        {"name": "p2", "description": "d", "tags": "a, b"}, {Project: ("name", "description")}, ("project",)
    ),
    "user_edit": Case(
        {"name": "alice-2", "email": "a@x.org", "description": "d", "project": "wonderland"},
        {User: ("name", "email", "description", "default_project_id")},
        ("alice",),
    ),
    "group_edit": Case({"name": "g2", "description": "d"}, {Group: ("name", "description")}, ("staff",)),
    "role_edit": Case({"name": "r2", "description": "d"}, {Role: ("name", "description")}, ("own_role",)),
    "network_edit": Case(
        {"name": "n2", "description": "d", "mtu": "1400", "admin_state_up": "on", "shared": "on"},
        {Network: ("name", "description", "mtu", "shared", "port_security_enabled", "admin_state_up")},
        ("network",),
    ),
    "subnet_edit": Case(
        {"name": "s2", "gateway": "none", "dns_nameservers": "9.9.9.9", "host_routes": "10.9.0.0/24 via 10.67.0.9"},
        {Subnet: ("name", "gateway_ip", "enable_dhcp", "dns_nameservers", "host_routes", "allocation_pools")},
        ("free_subnet",),
    ),
    "port_edit": Case(
        {
            "name": "p2",
            "description": "d",
            "fixed_ips": "10.67.0.77",
            "groups": ["group"],
            "admin_state_up": "on",
            "port_security_enabled": "on",
            "allowed_address_pairs": "10.67.0.99",
            "extra_dhcp_opts": "mtu 1400",
        },
        {
            Port: ("name", "description", "allowed_address_pairs", "extra_dhcp_opts", "security_groups__name"),
            FixedIP: ("address",),
        },
        ("port",),
    ),
    "port_groups": Case({"security_groups": ["group"]}, {Port: ("security_groups__name",)}, ("port",)),
    "router_edit": Case(
        {"name": "r2", "description": "d"}, {Router: ("name", "description", "admin_state_up")}, ("router",)
    ),
    "forwarding_edit": Case(
        {"protocol": "udp", "outside": "81", "inside": "82", "target": "fixed", "description": "d"},
        {PortForwarding: ("protocol", "external_port_first", "internal_port_first", "description")},
        ("forwarder", "forwarding"),
    ),
    "security_group_edit": Case(
        {"name": "g2", "description": HOSTILE.replace("\n", ""), "stateful": "on"},
        {SecurityGroup: ("name", "description", "stateful")},
        ("group",),
    ),
    "volume_edit": Case(
        {"name": "v2", "description": "d", "bootable": "on"},
        {Volume: ("name", "description", "bootable", "read_only")},
        ("volume",),
    ),
    "snapshot_edit": Case({"name": "s2", "description": "d"}, {Snapshot: ("name", "description")}, ("snapshot",)),
    "instance_rename": Case(
        {"name": "web-2", "description": "d", "hostname": "other"},
        {Instance: ("name", "description", "hostname")},
        ("server",),
    ),
    "group_user_add": Case({"who": "alice"}, {GroupMembership: ("user_id",)}, ("staff",)),
    "member_add": Case(
        {"who": "group:staff", "roles": ["role"]}, {RoleAssignment: ("role_id", "project_id")}, ("project",)
    ),
    "role_implications": Case({"roles": ["reader"]}, {ImpliedRole: ("prior__name", "implied__name")}, ("own_role",)),
    "host_maintenance": Case({"reason": "new disk"}, {Host: ("name", "disabled_reason")}, ("host",)),
    "member_roles": Case(
        {"roles": ["reader", "manager"]}, {RoleAssignment: ("role_id", "project_id")}, ("project", "user", "alice")
    ),
    "project_quotas": Case(
        {
            **{f"how-{name}": "limit" for name in ("cores", "volumes", "networks", "fixed_ips", "ram")},
            "limit-cores": "21",
            "limit-volumes": "12",
            "limit-networks": "3",
            "limit-fixed_ips": "9",
            "limit-ram": "-1",
            "how-ram": "unlimited",
        },
        {QuotaLimit: ("project_id", "resource", "limit")},
        ("project",),
    ),
    "quota_defaults": Case(
        {"how-cores": "limit", "limit-cores": "21", "how-volumes": "limit", "limit-volumes": "12"},
        {QuotaLimit: ("project_id", "resource", "limit")},
    ),
    "image_hardware": Case(
        {"hw_disk_bus": "scsi", "hw_video_model": "vga"}, {Image: ("name", "properties")}, ("image",)
    ),
    "settings": Case(
        {"description": "d", "email": "o@x.org", "project": "own_project"},
        {User: ("name", "email", "description", "default_project_id")},
    ),
    "user_password": Case({"how": "type", "password": PASSWORD}, {User: ("name", "password_expires_at")}, ("alice",)),
    "port_floating_ip": Case({"floating": "new:outside"}, {FloatingIP: ("fixed_address",)}, ("own_port",)),
    "instance_reset_state": Case({"state": "error"}, {Instance: ("vm_state",)}, ("server",)),
    "domain_member_roles": Case(
        {"roles": ["reader"], "handed_down": ["reader", "manager"]},
        {RoleAssignment: ("role_id", "domain_id", "inherited")},
        ("domain", "user", "alice"),
    ),
    "application_credential_create": Case(
        {"name": "c", "roles": ["admin"], "expiry": "never", "access_rules": "compute GET /v2.1/servers"},
        {ApplicationCredential: ("name", "expires_at", "unrestricted")},
    ),
}


@pytest.fixture
@standing
def things(people: People, cloud: Cloud) -> dict[str, str]:
    """The ids of one thing of each kind in the operator's project."""
    own, context = people.operator.project_id, people.operator.context
    net = network.create_network(own, "own")
    subnet = network.create_subnet(net, "10.66.0.0/24")
    more = network.create_network(own, "more")
    free = network.create_subnet(more, "10.67.0.0/24")
    outside = network.create_network(own, "outside", external=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    router = network.create_connected_router(own, [subnet], gateway=network.Gateway(outside))
    floating = network.create_floating_ip(own, outside)
    cloud.agents["host-1"].serve()
    volume, source = (Create.begin(context, VolumeRequest(size_gb=2, name=name)) for name in ("disk", "source"))
    cloud.run()
    server = cloud.running(context, networks=(NetworkRequest(network_id=str(net.id)),))
    network.ensure_default_security_group(own)
    fixed = FixedIP.objects.get(port__device_id=server.id)
    image = Image.objects.create(project_id=own, name="i", status="active", visibility="shared")
    snapshot = CreateSnapshot.begin(context, source.id, SnapshotRequest(name="s"))
    cloud.run()
    inside = network.create_port(own, net).fixed_ips.get()
    forwarded = ForwardingRequest("tcp", (80, 80), inside.port, inside.address, (80, 80))
    port, forwarder = network.create_port(own, more), network.create_floating_ip(own, outside)
    return {
        "domain": create_domain("other").id,
        "own_role": str(create_role("auditor").id),
        "port": str(port.id),
        "snapshot": str(snapshot.id),
        "forwarding": str(network.create_port_forwarding(forwarder, forwarded).id),
        "forwarder": str(forwarder.id),
        "network": str(net.id),
        "own": str(net.id),
        "network:own": f"network:{net.id}",
        "new:outside": f"new:{outside.id}",
        "free_subnet": str(free.id),
        "outside": str(outside.id),
        "router": str(router.id),
        "floating": str(floating.id),
        "fixed": str(fixed.pk),
        "group": str(network.create_security_group(own, "front").id),
        "volume": str(volume.id),
        "server": str(server.id),
        "image": str(cloud.image.id),
        "shared_image": str(image.id),
        "flavor": cloud.small.flavorid,
        "other_flavor": cloud.big.flavorid,
        "project": str(people.alice.project_id),
        "own_project": str(own),
        "own_port": str(fixed.port_id),
        "alice": str(people.alice.user_id),
        "staff": str((group := create_group(people.alice.user.domain, "staff")).id),
        "group:staff": f"group:{group.id.hex}",
        "role": str(Role.objects.get(name="member").id),
        "user": "user",
        "host": str(cloud.agents["host-1"].host.id),
        **{name: str(Role.objects.get(name=name).id) for name in ("reader", "manager")},
        "button": "stop",
    }


def filled(typed: Mapping[str, Any], things: Things) -> dict[str, Any]:
    """Return what is typed with the ids of things in place of their keys."""
    return {
        name: [things.get(each, each) for each in value] if isinstance(value, list) else things.get(value, value)
        for name, value in typed.items()
    }


def rows_of(case: Case) -> dict[str, list[str]]:
    """Return the columns of all records of a case's models."""
    return {
        model.__name__: sorted(
            json.dumps(row, sort_keys=True, default=str) for row in model.objects.values_list(*columns)
        )
        for model, columns in case.rows.items()
    }


def calls_of(client: Client, address: str, typed: Mapping[str, Any]) -> list[Call]:
    """Return the calls that the page shows for a form."""
    with mock.patch.object(pages, "written", return_value=[]) as write:
        answer = client.post(address, {**typed, "copy_as": "1"})
    assert answer.status_code == 200, answer.context
    return list(write.call_args.args[0])


def send(
    call: Call, client: Client, person: Person, made: dict[Call, str], secrets: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Send a call as curl does; ``made``: the ids of what earlier calls have created."""

    def word(value: Any) -> str:
        if isinstance(value, Secret):
            return secrets.get(value.name, PASSWORD)
        return made[value.of] if isinstance(value, Result) else str(value)

    if "file" in call.kind.path or call.kind.path == IMPLIED:
        return  # the content of the file is another test's
    body = curl.body_of(call)
    text = curl.json_text(body, lambda each: json.dumps(word(each))) if body is not None else ""
    headers = person.headers
    if version := place.since(call):
        headers = {**headers, "OpenStack-API-Version": f"{call.kind.service} {version}"}
    url = f"{URLS[call.kind.service].format(project=person.project_id.hex)}/{curl.path_of(call, word)}"
    answer = client.generic(call.kind.method, url, text, call.kind.content, headers=headers)
    assert answer.status_code < 300, (call.kind.method, url, text, answer.content)
    result = answer.json() if answer.content else {}
    inner = result if call.kind.answer == "." else result.get(call.kind.answer or call.kind.envelope) or {}
    made[call] = str(inner.get("id", ""))


URLS = {
    "identity": "/identity/v3",
    "compute": "/compute/v2.1",
    "image": "/image",
    "network": "/network/v2.0",
    "volume": "/volume/v3/{project}",
}


@pytest.mark.slow
@each_row("name", CASES)
def test_the_calls_create_what_the_form_creates(
    signed_in: SignedIn, people: People, things: dict[str, str], name: str
) -> None:
    case, client = CASES[name], signed_in(people.operator)
    address = reverse(f"dashboard:{name}", args=[things[each] for each in case.of])
    typed, before = filled(case.typed, things), rows_of(case)
    assert b'name="copy_as"' in client.get(address).content
    with transaction.atomic():
        answer = client.post(address, typed)
        assert answer.status_code < 400, answer.context["form"].errors
        by_form = rows_of(case)
        transaction.set_rollback(True)
    assert by_form != before or name in NO_ROWS
    made: dict[Call, str] = {}
    calls = calls_of(client, address, typed)
    assert problems(terraform.write(calls, place.Place("novella", {}))) == []
    for call in calls:
        send(call, Client(), people.operator, made)
    by_calls = rows_of(case)
    assert by_calls == by_form, [set(by_calls[each]) ^ set(by_form[each]) for each in by_form]


def test_every_form_that_creates_something_can_be_copied() -> None:
    views = {
        name: getattr(each.callback, "view_class", None)
        for name, each in patterns(get_resolver("portal.dashboard.urls"))
    }
    copied = {
        name
        for name, view in views.items()
        if isinstance(view, type) and issubclass(view, FormPage) and view.calls is not FormPage.calls
    }
    assert copied - SAME == CASES.keys()
    forms = {name for name, view in views.items() if isinstance(view, type) and issubclass(view, FormPage)}
    assert forms - copied == NO_CALLS
    creating = {name for name in views if name.endswith(("_create", "_allocate", "_upload", "_add"))}
    assert creating - copied == NO_CLIENT


SAME = {
    "backup_restore",
    "volume_retype",
    "domain_member_add",
    "system_member_roles",
    "system_member_add",
    "user_role_give",
    "group_role_give",
    "instance_change_password",
    "instance_live_migrate",
    "instance_migrate",
    "instance_unshelve",
    "launch_link",
    "launch_template_create",
    "launch_template_version_create",
    "pool_disk_manage",
    "pool_snapshot_manage",
    "settings_password",
    "transfer_accept",
}
"""Forms with calls that need another cloud, or that are those of another form."""
NO_CLIENT = {"ec2_credential_create", "snippet_create", "catalogue_add"}
"""Records of Novella, and buttons without a form."""
NO_CALLS = {
    *("host_drain_start", "instance_lease", "instance_mount_volume", "launch_template_edit"),
    *("member_list", "snippet_create", "snippet_edit", "styleguide_form"),
}
"""Forms for which no API of OpenStack has a call, and lists of users, which ``import_roster`` reads."""


@pytest.mark.parametrize(
    ("page", "before", "typed", "changed"),
    [
        ("tags", {"tags": ["old", "a"]}, "a\nb", {"tags": ["a", "b"]}),
        ("tags", {"tags": ["old"]}, "", {"tags": []}),
        ("metadata", {"metadata": {"old": "x", "a": "1"}}, "a=2", {"metadata": {"a": "2"}}),
        ("metadata", {"metadata": {"old": "x"}}, "", {"metadata": {}}),
    ],
)
def test_what_a_server_has_is_replaced_and_commands_remove_the_rest(
    signed_in: SignedIn, people: People, things: dict[str, str], page: str, before: Any, typed: str, changed: Any
) -> None:
    server = Instance.objects.filter(id=things["server"])
    server.update(**before)
    address = reverse(f"dashboard:instance_{page}", args=[things["server"]])
    calls = calls_of(signed_in(people.operator), address, {page: typed})
    forms = written(calls, place.Place("novella", {"compute": "http://cloud"}))
    texts = {each.key: " ".join(each.text.replace("\\\n", "").split()).replace("( ", "(") for each in forms}
    option = {"tags": "--tag", "metadata": "--property"}[page]
    assert f"server unset {option} old {things['server']}" in texts["openstack"]
    assert texts["openstack"].count("server set") == bool(typed)
    assert texts["curl"].count("curl") == 1
    assert f"conn.compute.put('/servers/{things['server']}/{page}'" in texts["python"]
    for call in calls:
        send(call, Client(), people.operator, {})
    assert server.values(page).get() == changed


def test_a_command_replaces_the_entries_of_a_list() -> None:
    values = {"name": "s", "dns_nameservers": ["9.9.9.9"], "host_routes": [], "enable_dhcp": False}
    calls = edit(kinds.SUBNET_EDIT, {"subnet": "id"}, values)
    [text] = [each.text for each in written(calls, PLACE) if each.key == "openstack"]
    words = text.replace("\\\n", "").split()[3:]
    assert words == [
        *("subnet", "set", "--no-dns-nameservers", "--no-host-route", "--no-dhcp"),
        *("--dns-nameserver", "9.9.9.9", "--name", "s", "id"),
    ]


def test_the_command_removes_tags_of_a_project_separately(
    signed_in: SignedIn, people: People, things: dict[str, str]
) -> None:
    client, address = signed_in(people.operator), reverse("dashboard:project_edit", args=[things["project"]])
    assert client.post(address, {"name": "wonderland", "tags": "old, kept"}).status_code == 303
    calls = calls_of(client, address, {"name": "wonderland", "tags": "kept, new"})
    [text] = [each.text for each in written(calls, place.Place("novella", {"identity": ""})) if each.key == "openstack"]
    assert [line.split()[3:-1] for line in text.replace("\\\n", "").splitlines()] == [
        ["project", "set", "--tag", "kept", "--tag", "new"],
        ["project", "set", "--remove-tag", "old"],
    ]


@pytest.mark.parametrize(
    ("kind", "values", "body", "command"),
    [
        ("MIGRATE_ANYWHERE", {"host": ""}, {"migrate": None}, "server migrate id"),
        ("MIGRATE", {"host": "h"}, {"migrate": {"host": "h"}}, "server migrate --host h id"),
        (
            "LIVE_MIGRATE",
            {"any_host": True, "block_migration": "auto"},
            {"os-migrateLive": {"host": None, "block_migration": "auto"}},
            "server migrate --live-migration id",
        ),
        (
            "LIVE_MIGRATE",
            {"host": "h", "block_migration": "auto"},
            {"os-migrateLive": {"host": "h", "block_migration": "auto"}},
            "server migrate --live-migration --host h id",
        ),
        ("UNSHELVE_AS_BEFORE", {}, {"unshelve": None}, "server unshelve id"),
        (
            "RESET_STATE",
            {"state": "error"},
            {"os-resetState": {"state": "error"}},
            "server set --state error --auto-approve id",
        ),
        (
            "UNSHELVE",
            {"any_zone": True, "host": "h"},
            {"unshelve": {"availability_zone": None, "host": "h"}},
            "server unshelve --no-availability-zone --host h id",
        ),
        (
            "UNSHELVE",
            {"availability_zone": "z"},
            {"unshelve": {"availability_zone": "z"}},
            "server unshelve --availability-zone z id",
        ),
    ],
)
def test_a_server_is_sent_to_a_place(kind: str, values: Any, body: Any, command: str) -> None:
    call = Call(getattr(compute_kinds, kind), {"server": "id", **values})
    assert curl.body_of(call) == body
    texts = {each.key: each.text for each in written([call], place.Place("novella", {"compute": "http://cloud"}))}
    assert texts["openstack"].replace("\\\n", "").split()[-len(command.split()) :] == command.split()


def test_a_transfer_is_accepted_by_its_lines(signed_in: SignedIn, people: People, things: Things) -> None:
    transfer, key = create_transfer(
        people.operator.context, Volume.objects.get(name="source").id, "t", no_snapshots=False
    )
    bob = people.alice
    [call] = calls_of(
        signed_in(bob), reverse("dashboard:transfer_accept"), {"transfer_id": str(transfer.id), "key": key}
    )
    send(call, Client(), bob, {}, {"auth_key": key})
    assert Volume.objects.get(name="source").project_id == bob.project_id


def test_only_changed_values_of_a_port_forwarding_are_written(
    signed_in: SignedIn, people: People, things: Things
) -> None:
    address = reverse("dashboard:forwarding_edit", args=[things["forwarder"], things["forwarding"]])
    client = signed_in(people.operator)
    typed = {name: client.get(address).context["form"][name].value() for name in ("protocol", "inside", "target")}
    [call] = calls_of(client, address, {**typed, "outside": "8080-8081", "description": ""})
    assert curl.body_of(call) == {"port_forwarding": {"external_port_range": "8080:8081"}}


@pytest.mark.slow
def test_defaults_of_limits_and_of_volume_types_are_copied(signed_in: SignedIn, people: People, things: Things) -> None:
    VolumeType.objects.create(name="fast-ssd")
    address = reverse("dashboard:project_quotas", args=[things["project"]])
    set_limits(people.alice.project_id, {"cores": 3})
    typed = {"how-cores": "default", "how-gigabytes_fast-ssd": "limit", "limit-gigabytes_fast-ssd": "7"}
    typed |= {"how-image_count_total": "unlimited"}
    cores, fast = calls_of(signed_in(people.operator), address, typed)
    assert curl.body_of(cores) == {"quota_set": {"cores": 20, "force": True}}
    assert [each.partition(":")[0] for each in cores.notes] == [
        "No API call removes a limit, so the default becomes the project's own limit",
        "No call sets",
    ]
    [text] = [each.text for each in written([fast], place.Place("novella", {"volume": ""})) if each.key == "openstack"]
    assert text.replace("\\\n", "").split()[3:] == [
        "quota",
        "set",
        "--gigabytes",
        "7",
        "--volume-type",
        "fast-ssd",
        things["project"].replace("-", ""),
    ]
    send(fast, Client(), people.operator, {})
    assert QuotaLimit.objects.get(resource="gigabytes_fast-ssd").limit == 7


def test_removed_properties_of_an_image_are_unset(signed_in: SignedIn, people: People, things: Things) -> None:
    Image.objects.filter(id=things["image"]).update(properties={"hw_disk_bus": "scsi", "hw_vif_model": "e1000"})
    address = reverse("dashboard:image_hardware", args=[things["image"]])
    calls = calls_of(signed_in(people.operator), address, {"hw_disk_bus": "", "hw_vif_model": "e1000"})
    forms = written(calls, place.Place("novella", {"image": "http://cloud"}))
    texts = {each.key: each.text.replace("\\\n", "").split() for each in forms}
    assert texts["openstack"] == [
        *("openstack", "--os-cloud", "novella", "image", "unset", "--property", "hw_disk_bus"),
        things["image"],
    ]
    assert "'Content-Type: application/openstack-images-v2.1-json-patch'" in " ".join(texts["curl"])
    for call in calls:
        send(call, Client(), people.operator, {})
    assert Image.objects.get(id=things["image"]).properties == {"hw_vif_model": "e1000"}


def test_users_whose_record_is_an_operators_matter_have_no_lines(signed_in: SignedIn, people: People) -> None:
    address = reverse("dashboard:settings")
    assert b'name="copy_as"' not in signed_in(people.alice).get(address).content
    assert signed_in(people.alice).post(address, {"description": "d", "copy_as": "1"}).status_code == 303


def test_a_launch_link_and_an_ec2_credential_are_copied(
    signed_in: SignedIn, people: People, things: dict[str, str], cloud: Cloud
) -> None:
    client, own = signed_in(people.operator), people.operator
    plan = LaunchPlan(name="web", image=str(cloud.image.id), flavor=cloud.small.flavorid)
    templates.create_template(own.context, "Lab", "lab", plan, templates.Modes(locked=("flavor",), asked=("name",)))
    link = reverse("dashboard:launch_link", args=["lab"])
    assert b'name="copy_as"' in client.get(link).content
    [server] = calls_of(client, link, {"name": "mine", "image": str(cloud.image.id), "count": "1"})
    assert (server.values["name"], server.values["flavor_id"]) == ("mine", cloud.small.flavorid)
    create = reverse("dashboard:ec2_credential_create")
    assert b'name="copy_as"' in client.get(reverse("dashboard:ec2_credentials")).content
    before = Credential.objects.count()
    [call] = calls_of(client, create, {})
    assert Credential.objects.count() == before
    made: dict[Call, str] = {}
    send(call, Client(), own, made)
    assert Credential.objects.filter(type="ec2", user_id=own.user_id, project_id=own.project_id).count() == 1


def written_for(name: str) -> dict[str, str]:
    call = Call(kinds.SECURITY_GROUP, {"name": name, "description": name})
    rule = Call(kinds.RULE, kinds.rule_values({"direction": "ingress", "security_group_id": Result(call)}))
    urls = dict.fromkeys(("network", "compute"), "http://cloud")
    return {each.key: each.text for each in written([call, rule], place.Place("novella", urls))}


def bash(program: str, folder: Path) -> list[list[str]]:
    """Run a program in which openstack and curl only write down their arguments; return these."""
    record = f"printf '%s\\0' \"$@\" END >> {folder}/arguments; "
    functions = (
        f'openstack() {{ {record} echo id; }}; curl() {{ {record} echo \'{{"security_group": {{"id": "id"}}}}\'; }}\n'
    )
    subprocess.run(["bash", "-ec", functions + program], check=True, capture_output=True, timeout=60)
    words = (folder / "arguments").read_text().split("\0")[:-1]
    result: list[list[str]] = [[]]
    for word in words:
        result[-1].append(word) if word != "END" else result.append([])
    return result[:-1]


@pytest.mark.slow
def test_a_hostile_name_is_one_argument(tmp_path: Path) -> None:
    texts = written_for(HOSTILE)
    create, rule = bash(texts["openstack"], tmp_path)
    assert create[-2:] == ["--", HOSTILE]
    assert f"--description={HOSTILE}" in create
    assert rule[-1] == "id"
    (tmp_path / "arguments").unlink()
    _, create, rule = bash(texts["curl"], tmp_path)
    assert json.loads(create[-1]) == {"security_group": {"name": HOSTILE, "description": HOSTILE}}
    assert json.loads(rule[-1])["security_group_rule"]["security_group_id"] == "id"


def test_a_hostile_name_is_a_literal_of_each_language() -> None:
    texts = written_for(HOSTILE)
    [call] = [
        each for each in ast.walk(ast.parse(texts["python"])) if isinstance(each, ast.keyword) and each.arg == "name"
    ]
    assert ast.literal_eval(call.value) == HOSTILE

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))
    [play] = yaml.load(texts["ansible"], Loader)  # noqa: S506 - a safe loader with one tag more
    assert play["tasks"][0]["openstack.cloud.security_group"]["name"] == HOSTILE
    assert "!unsafe" in texts["ansible"]
    literal = re.search(r'^  name += (".*")$', texts["terraform"], re.MULTILINE)
    assert literal
    assert json.loads(literal[1].replace("$${", "${").replace("%%{", "%{")) == HOSTILE
    assert "\u202e" not in "".join(texts.values())


def test_passwords_are_not_copied(signed_in: SignedIn, people: People, things: dict[str, str]) -> None:
    client = signed_in(people.operator)
    typed = {"password": "so-very-secret-1", "again": "so-very-secret-1", "copy_as": "1"}
    address = reverse("dashboard:instance_change_password", args=[things["server"]])
    answer = client.post(address, typed, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert b"so-very-secret-1" not in answer.content
    assert b"changePassword" in answer.content


def test_an_action_is_copied_and_not_done(signed_in: SignedIn, people: People, things: dict[str, str]) -> None:
    client, address = signed_in(people.operator), reverse("dashboard:instance_action", args=[things["server"], "stop"])
    assert b"os-stop" in client.post(address, {"copy_as": "1"}).content
    assert Instance.objects.get(id=things["server"]).task_state is None
    assert b"copy-as-button" in client.get(address).content


def test_a_wrong_form_says_what_to_correct(signed_in: SignedIn, people: People) -> None:
    client, address = signed_in(people.operator), reverse("dashboard:volume_create")
    answer = client.post(address, {"source": "empty", "copy_as": "1"}, headers={"HX-Request": "true"})
    assert "Correct the form first. Size: " in answer.content.decode()
    assert client.post(address, {"source": "empty", "copy_as": "1"}).status_code == 422


NO_ROWS = {"router_gateway", "user_password"}
"""Forms whose columns stay as they are."""
