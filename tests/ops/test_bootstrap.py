"""``manage.py bootstrap``: a usable cloud from nothing, and nothing more when it runs again."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from provisioning.compute.launch.create import launch
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import Flavor
from provisioning.hosts import enrolment
from provisioning.hosts.models import Host, JoinToken
from provisioning.identity.models import Project, RoleAssignment, User
from provisioning.identity.selectors.entries import roles_of
from provisioning.identity.services.passwords import authenticate_password, set_password
from provisioning.images.models import Image
from provisioning.network.models import Network, Port, Router, SecurityGroup, Subnet
from provisioning.network.services import (
    create_floating_ip,
    delete_router,
    remove_interface_by_port,
    update_network,
)
from provisioning.network.services.routing.routers import legs_of
from tests.support.cast import context_of
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def data(settings: Any, tmp_path: Path, db: None) -> Path:
    settings.DATA_DIR, settings.PORTAL_DIR, settings.IMAGE_DIR = tmp_path, tmp_path, tmp_path / "images"
    return tmp_path


def bootstrap(data: Path, *arguments: str) -> dict[str, Any]:
    call_command("bootstrap", "--simulated", *arguments, verbosity=0)
    result: dict[str, Any] = json.loads((data / "run" / "bootstrap.json").read_text())
    return result


def test_everything_a_first_launch_needs_is_there(data: Path) -> None:
    made = bootstrap(data, "--host", "sim-1")
    ScriptedAgent.join("sim-1")
    user, project = User.objects.get(name="demo"), Project.objects.get(name="demo")
    context = context_of(user, project)
    request = LaunchRequest(name="first", image_id=made["image"]["id"], flavor_ref=made["flavor"]["id"])
    (instance,) = launch(context, request)
    assert instance.vm_state == "building"
    for name in ("admin", "demo"):
        result = authenticate_password(
            user_name=name, domain_name="Default", password=made["passwords"][name], source="127.0.0.1"
        )
        assert result.id.hex == made["users"][name]
        assert re.fullmatch(r"[A-Za-z0-9]{16}", made["passwords"][name]), "a hyphen in front is an option to a shell"


def test_people_and_roles_are_as_documented(data: Path) -> None:
    made = bootstrap(data)
    users = {user.name: user.id for user in User.objects.all()}
    projects = {project.name: project.id for project in Project.objects.all()}
    assert made["projects"] == {name: key.hex for name, key in projects.items()}
    assert "admin" in roles_of(users["admin"], projects["admin"])
    [of_system] = RoleAssignment.objects.filter(system=True)
    assert (of_system.user_id, of_system.role.name) == (users["admin"], "admin")
    assert "admin" in roles_of(users["admin"], projects["demo"])
    assert roles_of(users["demo"], projects["demo"]) == {"member", "reader"}
    assert not roles_of(users["demo"], projects["admin"])


def test_sizes_network_and_groups_are_as_documented(data: Path) -> None:
    bootstrap(data)
    sizes = {flavor.name: (flavor.vcpus, flavor.memory_mb, flavor.root_gb) for flavor in Flavor.objects.all()}
    assert sizes["m1.nano"] == (1, 96, 1)
    assert sizes["m1.large"] == (4, 8192, 80)
    assert len(sizes) == 6
    network, subnet = Network.objects.get(), Subnet.objects.get()
    assert (network.name, network.shared, subnet.cidr) == ("demo-net", True, "10.20.0.0/24")
    assert subnet.dns_nameservers == [], "the network's own server knows the guests' names"
    for project in Project.objects.all():
        group = SecurityGroup.objects.get(project_id=project.id, name="default")
        open_ports = group.rules.filter(direction="ingress", remote_ip_prefix="0.0.0.0/0")
        assert sorted(open_ports.values_list("protocol", "port_range_min"), key=str) == [("icmp", None), ("tcp", 22)]


OUTSIDE = ("--external-network", "external", "--external-range", "203.0.113.1/24", "--external-range", "2001:db8::1/64")


def test_the_demo_network_leads_out_by_a_router(data: Path) -> None:
    made = bootstrap(data, *OUTSIDE)
    public = Network.objects.get(external=True)
    assert made["external"] == {"id": str(public.id), "name": "public"}
    assert (public.network_type, public.physical_network, public.is_default) == ("flat", "external", True)
    ranges = public.subnets.values_list("cidr", "gateway_ip", "enable_dhcp")
    assert set(ranges) == {("203.0.113.0/24", "203.0.113.1", False), ("2001:db8::/64", "2001:db8::1", False)}
    legs = {
        leg.network.name: leg.device_owner for leg in Port.objects.filter(device_owner__startswith="network:router")
    }
    assert legs == {"public": "network:router_gateway", "demo-net": "network:router_interface"}
    assert create_floating_ip(Project.objects.get(name="demo").id, public).address.startswith("203.0.113.")


def test_an_external_network_of_an_operators_is_left_alone(data: Path) -> None:
    first = bootstrap(data, *OUTSIDE)
    router = Router.objects.get()
    for leg in legs_of(router):
        remove_interface_by_port(router, str(leg.id))
    delete_router(router)
    update_network(Network.objects.get(external=True), {"name": "world"})
    again = bootstrap(data, "--external-network", "machine", "--external-range", "172.24.4.1/24")
    assert again["external"] == first["external"] | {"name": "world"}
    assert Network.objects.count() == 2
    assert not Router.objects.exists()


def test_running_it_again_changes_nothing(data: Path) -> None:
    first = bootstrap(data)
    counts = [model.objects.count() for model in (User, Project, Flavor, Network, Subnet, Image, SecurityGroup)]
    second = bootstrap(data)
    assert first == second
    assert counts == [model.objects.count() for model in (User, Project, Flavor, Network, Subnet, Image, SecurityGroup)]


def test_what_people_changed_stays(data: Path) -> None:
    bootstrap(data)
    set_password(User.objects.get(name="demo"), "my own words")
    group = SecurityGroup.objects.get(project_id=Project.objects.get(name="demo").id)
    group.rules.filter(direction="ingress").delete()
    again = bootstrap(data)
    assert again["passwords"]["demo"] is None
    assert again["passwords"]["admin"]
    assert User.objects.get(name="demo").check_password("my own words")
    assert not group.rules.filter(direction="ingress").exists()


def test_secrets_are_for_the_owner_only(data: Path) -> None:
    bootstrap(data)
    for path in (data / "run" / "bootstrap.json", *(data / "secrets").glob("password-*")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(list((data / "secrets").glob("password-*"))) == 2


def test_hosts_get_a_join_token_until_they_have_enrolled(data: Path) -> None:
    made = bootstrap(data, "--host", "sim-1", "--host", "sim-2")
    assert set(made["join_tokens"]) == {"sim-1", "sim-2"}
    ScriptedAgent.join("sim-1")
    assert set(bootstrap(data, "--host", "sim-1", "--host", "sim-2")["join_tokens"]) == {"sim-2"}
    assert Host.objects.count() == 1


def test_a_token_is_for_its_host_only(data: Path) -> None:
    token = bootstrap(data, "--host", "sim-1")["join_tokens"]["sim-1"]
    assert token not in str(JoinToken.objects.values())
    assert JoinToken.objects.get().host_name == "sim-1"
    assert enrolment.create_join_token("other") != token


def test_a_guest_image_is_uploaded_and_replaced_when_it_is_another_one(data: Path, qcow2: Path) -> None:
    first = bootstrap(data, "--guest-image", str(qcow2))["image"]
    assert (first["name"], first["status"]) == ("novella-guest", "active")
    image = Image.objects.get(id=first["id"])
    assert (image.disk_format, image.visibility, image.min_ram) == ("qcow2", "public", 96)
    assert bootstrap(data, "--guest-image", str(qcow2))["image"] == first
    qcow2.write_bytes(qcow2.read_bytes() + bytes(65_536))
    second = bootstrap(data, "--guest-image", str(qcow2))["image"]
    assert second["id"] != first["id"]
    image.refresh_from_db()
    assert image.status == "deleted"
    assert list(Image.objects.filter(status="active").values_list("id", flat=True)) == [
        Image.objects.get(id=second["id"]).id
    ]


def test_a_cloud_with_real_hosts_gets_no_blank_image(data: Path) -> None:
    call_command("bootstrap", verbosity=0)
    assert json.loads((data / "run" / "bootstrap.json").read_text())["image"] is None
    assert not Image.objects.exists()


def test_wrong_arguments_are_reported_in_a_sentence(data: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="There is no guest image at"):
        bootstrap(data, "--guest-image", str(tmp_path / "missing.qcow2"))
    with pytest.raises(CommandError, match="must be the same folder"):
        bootstrap(data, "--data", "/somewhere/else")


@pytest.fixture
def qcow2(tmp_path: Path) -> Path:
    """A small qcow2 file as qemu-img makes it: a header of version 3, empty tables, no data."""
    cluster = 65_536
    header = bytearray(cluster)
    header[0:4] = b"QFI\xfb"
    fields = {4: (3, 4), 20: (16, 4), 24: (1 << 20, 8), 36: (1, 4), 40: (3 * cluster, 8), 48: (cluster, 8), 56: (1, 4)}
    fields |= {96: (4, 4), 100: (104, 4)}
    for offset, (value, size) in fields.items():
        header[offset : offset + size] = value.to_bytes(size, "big")
    table = bytearray(cluster)
    table[0:8] = (2 * cluster).to_bytes(8, "big")
    counts = b"\x00\x01" * 4 + bytes(cluster - 8)
    path = tmp_path / "guest.qcow2"
    path.write_bytes(bytes(header) + bytes(table) + counts + bytes(cluster))
    return path
