"""What holds for every form: a control that is wrong has a label, says that it is wrong, and is described by why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from portal.dashboard.frame.pages import FormPage
from provisioning.identity.models import Role
from provisioning.identity.services.groups import create_group
from provisioning.identity.services.roles import create_role
from provisioning.images.models import Image
from provisioning.launches.plans.plan import LaunchPlan
from provisioning.launches.services import snippets, templates
from provisioning.network import services as network
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest
from provisioning.volumes.models import Backup
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, CreateSnapshot, SnapshotRequest
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.pages import Document
from tests.support.standing import standing

Typed = Mapping[str, str]
INVALID: Mapping[str, Typed] = {
    "application_credential_create": {"expiry": "at", "access_rules": "compute GET"},
    "backup_create": {"description": "x" * 256},
    "backup_restore": {"target": "nowhere"},
    "change_expired": {"user_name": "alice", "original": "x", "password": "y", "again": "z"},
    "domain_create": {},
    "domain_edit": {},
    "domain_member_add": {},
    "domain_member_roles": {},
    "server_group_create": {"policy": "nowhere", "max_server_per_host": "0"},
    "flavor_create": {"vcpus": "two", "root_gb": "-1"},
    "floating_ip_allocate": {"network": "nowhere"},
    "floating_ip_associate": {"target": "nobody"},
    "forwarding_edit": {"protocol": "ah", "outside": "x", "inside": "y", "target": "nobody"},
    "forwarding_add": {"protocol": "ah", "outside": "x", "inside": "y", "target": "nobody"},
    "group_create": {"domain": "nowhere"},
    "group_edit": {},
    "group_role_give": {},
    "group_user_add": {},
    "host_drain_start": {"reason": "x" * 256},
    "host_maintenance": {},
    "image_hardware": {"hw_disk_bus": "bogus"},
    "image_share": {},
    "instance_attach_interface": {"target": "nowhere"},
    "instance_backup": {"rotation": "none"},
    "instance_change_password": {"password": "x", "again": "y"},
    "instance_live_migrate": {"host": "nowhere"},
    "instance_lock": {"reason": "x" * 256},
    "instance_metadata": {"metadata": "no sign"},
    "instance_migrate": {"host": "nowhere"},
    "instance_mount_volume": {},
    "instance_rebuild": {},
    "instance_rename": {},
    "instance_rescue": {"image": "nowhere"},
    "instance_reset_state": {},
    "instance_resize": {},
    "instance_snapshot": {"name": "x" * 256},
    "instance_tags": {"tags": "a/b"},
    "instance_unshelve": {},
    "instance_lease": {"lease_days": "soon"},
    "key_pair_create": {"how": "import"},
    "launch": {"count": "many", "metadata": "no sign", "description": "x" * 256, "networks": "nowhere"},
    "launch_link": {"name": "", "count": "many", "metadata": "no sign"},
    "launch_template_create": {"plan": "{}", "slug": "No Way", "mode_name": "open"},
    "launch_template_edit": {"slug": "No Way"},
    "launch_template_version_create": {"plan": "{}", "mode_name": "open"},
    "member_add": {},
    "member_list": {},
    "member_roles": {},
    "network_create": {"cidr": "x", "cidr6": "y", "mtu": "many", "dns_nameservers": "z", "network_type": "wire"},
    "network_edit": {"mtu": "many"},
    "pool_disk_manage": {"description": "x" * 256},
    "pool_snapshot_manage": {"description": "x" * 256},
    "port_create": {"fixed_ips": "x", "mac_address": "y", "groups": "z", "allowed_address_pairs": "0.0.0.0/0"},
    "port_edit": {"fixed_ips": "x", "groups": "z", "extra_dhcp_opts": "mtu", "allowed_address_pairs": "0.0.0.0/0"},
    "port_floating_ip": {"floating": "nowhere"},
    "port_groups": {"security_groups": "nowhere"},
    "project_create": {"domain": "nowhere", "description": "a\0b"},
    "project_edit": {},
    "project_quotas": {"how-cores": "much", "how-ram": "limit", "limit-ram": "two"},
    "quota_defaults": {"how-cores": "much", "how-ram": "limit", "limit-ram": "two"},
    "role_create": {"domain": "nowhere"},
    "role_edit": {},
    "role_implications": {"roles": "ADMIN"},
    "router_create": {"gateway": "nowhere", "subnets": "nowhere"},
    "router_edit": {"description": "x" * 256},
    "router_gateway": {"gateway": "nowhere"},
    "router_interface_add": {"subnet": "nowhere", "address": "x"},
    "router_route_add": {"destination": "x", "nexthop": "y"},
    "security_group_create": {"description": "x" * 256},
    "security_group_edit": {"description": "x" * 256},
    "security_group_rule_add": {"template": "own", "protocol": "tpc", "ports": "x", "remote": "range", "cidr": "x"},
    "server_attach": {},
    "settings": {"email": "no address", "project": "nowhere"},
    "settings_password": {"password": "x", "again": "y"},
    "sign_in": {},
    "snippet_create": {"text": "#cloud-config\n\tfoo: [bar"},
    "snippet_edit": {"name": "x" * 65, "text": "packages: []"},
    "snapshot_create": {"description": "x" * 256},
    "snapshot_edit": {"description": "x" * 256},
    "subnet_create": {"cidr": "x", "gateway": "own", "allocation_pools": "y", "host_routes": "z"},
    "subnet_edit": {"gateway": "own", "allocation_pools": "y", "dns_nameservers": "z"},
    "system_member_add": {},
    "system_member_roles": {},
    "transfer_accept": {},
    "transfer_create": {"name": "x" * 256},
    "user_create": {"how": "type", "domain": "nowhere"},
    "user_edit": {"project": "nowhere"},
    "user_password": {"how": "type"},
    "user_role_give": {},
    "volume_attach": {},
    "volume_create": {"source": "nowhere", "size": "x"},
    "volume_edit": {"description": "x" * 256},
    "volume_extend": {"size": "x"},
    "volume_retype": {},
    "volume_upload": {},
}
"""URL name → what is sent.  The upload is not here: its script shows the errors (tests/e2e); the style guide
exists only with DEBUG.
"""
OF_APIS = re.compile(r"\b[a-z]+_[a-z_]+\b|\b[a-z]+Ref\b|Invalid input|Policy doesn|base64|\b[0-9a-f]{8}-?[0-9a-f]{4}-")
"""Words that only programs use: names of fields and rules, prefixes of the APIs, ids."""
NO_FIELD = {"role_implications", "instance_unshelve"}
"""Here the service refuses the form as a whole."""


def patterns(found: Any, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Yield every pattern of the dashboard with its name."""
    for each in found.url_patterns:
        if isinstance(each, URLResolver):
            yield from patterns(each, prefix)
        elif each.name:
            yield each.name, each


def test_the_table_has_every_page_with_a_form() -> None:
    dashboard = get_resolver("portal.dashboard.urls")
    views = {name: getattr(each.callback, "view_class", None) for name, each in patterns(dashboard)}
    forms = {name for name, view in views.items() if view is not None and issubclass(view, FormPage)}
    assert forms - {"image_upload", "styleguide_form"} == INVALID.keys() - {"sign_in", "change_expired"}


@pytest.fixture
@standing
def addresses(people: People, cloud: Cloud) -> dict[str, tuple[object, ...]]:
    """Return the ids in the addresses of pages of one record."""
    image = Image.objects.create(project_id=people.operator.project_id, name="i", status="active", visibility="shared")
    group = create_group(people.alice.user.domain, "staff")
    role, user, project = create_role("auditor"), people.alice.user_id, people.alice.project_id
    own = people.operator.project_id
    net = network.create_network(own, "own")
    subnet = network.create_subnet(net, "10.66.0.0/24")
    outside = network.create_network(own, "outside", external=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    router = network.create_connected_router(own, [subnet], gateway=network.Gateway(outside))
    floating = network.create_floating_ip(own, outside)
    port = network.create_port(own, net)
    request = ForwardingRequest("tcp", (80, 80), port, port.fixed_ips.get().address, (80, 80))
    forwarding = network.create_port_forwarding(floating, request)
    cloud.agents["host-1"].serve()
    volume = Create.begin(people.operator.context, VolumeRequest(size_gb=1, name="data"))
    cloud.run()
    snapshot = CreateSnapshot.begin(people.operator.context, volume.id, SnapshotRequest())
    cloud.run()
    backup = Backup.objects.create(project_id=own, volume_id=volume.id, size_gb=1, status="available")
    server = cloud.running(people.operator.context, networks="none")
    plan = LaunchPlan(name="web", image=str(cloud.image.id), flavor="1")
    template = templates.create_template(people.operator.context, "Lab", "lab", plan, templates.Modes(asked=("name",)))
    snippet = snippets.create_snippet(people.operator.context, "hello", "#cloud-config\npackages: [vim]\n")
    return {
        "instance_lease": (server.id,),
        "launch_link": ("lab",),
        "launch_template_edit": (template.id,),
        "launch_template_version_create": (template.id,),
        "snippet_edit": (snippet.id,),
        "backup": (backup.id,),
        "backup_create": (volume.id,),
        "server_attach": (server.id,),
        "snapshot": (snapshot.id,),
        "snapshot_create": (volume.id,),
        "transfer_create": (volume.id,),
        "volume": (volume.id,),
        "domain": (people.alice.user.domain_id,),
        "domain_member_roles": (people.alice.user.domain_id, "user", user),
        "system_member_roles": ("user", user),
        "floating": (floating.id,),
        "forwarding": (floating.id,),
        "forwarding_edit": (floating.id, forwarding.id),
        "group": (group.id,),
        "host": (cloud.agents["host-1"].host.id,),
        "image": (image.id,),
        "instance": (server.id,),
        "instance_mount_volume": (server.id, volume.id),
        "member_add": (project,),
        "member_list": (project,),
        "member_roles": (project, "user", user),
        "network": (net.id,),
        "pool_disk_manage": (volume.pool_id, "disk"),
        "pool_snapshot_manage": (volume.pool_id, volume.id, "snapshot"),
        "port_create": (net.id,),
        "router": (router.id,),
        "subnet": (subnet.id,),
        "subnet_create": (net.id,),
        "port": (port.id,),
        "project": (project,),
        "security": (network.create_security_group(own, "front").id,),
        "role": (role.id,),
        "user": (user,),
    }


@pytest.mark.parametrize("name", INVALID)
def test_wrong_controls_are_labelled_and_described(
    signed_in: SignedIn, people: People, addresses: dict[str, tuple[object, ...]], name: str
) -> None:
    fresh = name.endswith(("_create", "_allocate", "_accept"))
    ids = addresses.get(name) or (() if fresh else addresses.get(name.partition("_")[0], ()))
    typed = dict(INVALID[name])
    if typed.get("roles") == "ADMIN":
        typed["roles"] = str(Role.objects.get(name="admin").id)
    client = Client() if name in {"sign_in", "change_expired"} else signed_in(people.operator)
    answer = client.post(reverse(f"dashboard:{name}", args=ids), typed)
    assert answer.status_code == 422
    errors = [field for field in answer.context["form"].errors if field != "__all__"]
    assert bool(errors) == (name not in NO_FIELD)
    assert errors or 'id="form_error"' in answer.content.decode()
    for texts in answer.context["form"].errors.values():
        assert not [text for text in texts if OF_APIS.search(text)], texts
    page = Document(answer.content.decode())
    for field in errors:
        controls = page.controls(field)
        assert controls or not answer.context["form"].fields[field].widget.choices
        for control in controls:
            assert page.has_label(control), field
            if control.attributes["type" if control.tag == "input" else "name"] != "hidden":
                assert control.attributes.get("aria-invalid") == "true", field
                assert answer.context["form"].errors[field][0] in " ".join(page.descriptions(control)), field
