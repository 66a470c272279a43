"""Copy as: the lines of each form, run by its program, create what the form says, and alike."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import requests
import yaml
from openstack.connection import Connection

from tests.e2e.sdk_proxies import connect
from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine, running

pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
PROGRAMS, ANSIBLE = CHECKOUT / ".venv/bin", CHECKOUT / ".venv/ansible/bin"
TEXT = re.compile(r'<pre id="copy-(\w+)"[^>]*>(.*?)</pre>', re.DOTALL)
TOKEN = re.compile(r'csrfmiddlewaretoken" value="([^"]+)')
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2vM0ZrzUqvpAMHrGe1iA2zJhbdOqMWgAb1hZ8RMhbO me@desk"
ON = dict.fromkeys(("with_gateway", "enable_dhcp", "port_security_enabled", "admin_state_up", "stateful"), "on")
FORMS = ("openstack", "curl", "python")


@dataclass(frozen=True)
class Kind:
    """A form: its page, what is typed besides the name, and how a client finds what was created."""

    path: str
    typed: Mapping[str, str]
    find: Callable[[Connection, str], Any]
    compared: tuple[str, ...]
    user: str = "demo"
    of: str = ""
    """The argument of ``find`` for edits, which have no name to look for."""
    reset: Callable[[Connection, str], Any] | None = None
    """Brings it back to its state before the edit."""


def named(proxy: str, kind: str) -> Callable[[Connection, str], Any]:
    return lambda conn, name: getattr(getattr(conn, proxy), f"find_{kind}")(name, ignore_missing=False)


def by_id(proxy: str, kind: str) -> Callable[[Connection, str], Any]:
    return lambda conn, key: getattr(getattr(conn, proxy), f"get_{kind}")(key)


def limits(conn: Connection, project: str) -> Any:
    return SimpleNamespace(
        cores=conn.compute.get_quota_set(project).cores,
        volumes=conn.block_storage.get_quota_set(project).volumes,
        networks=conn.network.get_quota(project).networks,
    )


def without_limits(conn: Connection, project: str) -> None:
    conn.compute.revert_quota_set(project)
    conn.block_storage.revert_quota_set(project)
    conn.network.delete_quota(project)


KINDS = {
    "volume": Kind(
        "/volumes/create/",
        {"source": "empty", "size": "1", "description": "it's $HOME"},
        named("block_storage", "volume"),
        ("size", "description"),
    ),
    "snapshot": Kind("/volumes/{volume}/snapshot/", {}, named("block_storage", "snapshot"), ("volume_id",)),
    "backup": Kind("/volumes/{volume}/back-up/", {}, named("block_storage", "backup"), ("volume_id",)),
    "network": Kind(
        "/networks/create/",
        {"cidr": "10.{number}.0.0/24", "router": "", "ipv6_mode": "slaac", **ON},
        named("network", "network"),
        ("is_admin_state_up", "is_port_security_enabled", "mtu"),
    ),
    "subnet": Kind(
        "/networks/{network}/subnets/create/",
        {"cidr": "10.{number}.1.0/24", "gateway": "none", "dns_nameservers": "9.9.9.9"},
        named("network", "subnet"),
        ("network_id", "gateway_ip", "is_dhcp_enabled", "dns_nameservers"),
    ),
    "port": Kind(
        "/networks/{network}/ports/create/",
        {"description": "d", **ON},
        named("network", "port"),
        ("network_id", "description", "is_admin_state_up", "security_group_ids"),
    ),
    "router": Kind(
        "/routers/create/",
        {"gateway": "{outside}", **ON},
        named("network", "router"),
        ("is_admin_state_up", "status"),
    ),
    "group": Kind(
        "/security-groups/create/",
        {"description": "-x 'q' $HOME", **ON},
        named("network", "security_group"),
        ("description", "stateful"),
    ),
    "key": Kind(
        "/key-pairs/create/",
        {"how": "import", "public_key": KEY},
        named("compute", "keypair"),
        ("public_key", "fingerprint"),
    ),
    "server": Kind(
        "/instances/launch/",
        {"image": "{image}", "flavor": "{flavor}", "networks": "{network}", "count": "1", "tags": "a,b",
         "metadata": "role=web", "user_data": "#!/bin/sh\nid", "description": "d"},
        lambda conn, name: conn.compute.get_server(conn.compute.find_server(name, ignore_missing=False)),
        ("metadata", "tags", "flavor", "description"),
    ),
    "reachable": Kind(
        "/instances/launch/",
        {"image": "{image}", "flavor": "{flavor}", "networks": "{network}", "count": "1", "reachable": "on",
         "openings": "ssh", "disks_size": "1", "disks_mount": ""},
        named("compute", "server"),
        ("attached_volumes_count",),
    ),
    "network_edit": Kind(
        "/networks/{network}/edit/",
        {"description": "-x 'q' $HOME", "mtu": "1400", **ON},
        named("network", "network"),
        ("id", "description", "mtu"),
    ),
    "volume_edit": Kind(
        "/volumes/{volume}/edit/",
        {"description": "it's $HOME"},
        named("block_storage", "volume"),
        ("id", "description"),
    ),
    "image": Kind(
        "/images/upload/",
        {"disk_format": "raw", "min_disk": "1", "login": "debian", "visibility": "private"},
        named("image", "image"),
        ("disk_format", "min_disk", "visibility", "status", "size"),
    ),
    "credential": Kind(
        "/application-credentials/create/",
        {"roles": "member", "expiry": "never", "access_rules": "compute GET /v2.1/servers"},
        lambda conn, name: conn.identity.find_application_credential(conn.current_user_id, name, ignore_missing=False),
        ("expires_at", "unrestricted"),
    ),
    "flavor": Kind(
        "/flavors/create/",
        {"vcpus": "1", "memory_mb": "64", "root_gb": "1", "description": "d", "is_public": "on"},
        named("compute", "flavor"),
        ("vcpus", "ram", "disk", "is_public"),
        "admin",
    ),
    "project": Kind(
        "/projects/create/",
        {"description": "d", "domain": "default"},
        named("identity", "project"),
        ("description", "domain_id", "is_enabled"),
        "admin",
    ),
    "user": Kind(
        "/users/create/",
        {"how": "make", "domain": "default", "project": "demo", "role": "member", "email": "e@example.org"},
        named("identity", "user"),
        ("email", "default_project_id", "domain_id"),
        "admin",
    ),
    "staff": Kind(
        "/groups/create/", {"domain": "default", "description": "d"}, named("identity", "group"), ("description",),
        "admin",
    ),
    "role": Kind("/roles/create/", {"description": "d"}, named("identity", "role"), ("description",), "admin"),
    "domain": Kind("/domains/create/", {"description": "d"}, named("identity", "domain"), ("description",), "admin"),
    "port_groups": Kind(
        "/ports/{port}/security-groups/", {"security_groups": "{group}"}, by_id("network", "port"),
        ("security_group_ids",), of="port",
        reset=lambda conn, key: conn.network.update_port(key, security_groups=[]),
    ),
    "router_edit": Kind(
        "/routers/{router}/edit/", {"description": "it's", **ON}, named("network", "router"), ("id", "description")
    ),
    "group_edit": Kind(
        "/security-groups/{group}/edit/", {"description": "-x 'q' $HOME", **ON}, named("network", "security_group"),
        ("id", "description"),
    ),
    "floating_ip": Kind(
        "/ports/{guest_port}/floating-ip/", {"floating": "new:{outside}"},
        lambda conn, key: next(conn.network.ips(port_id=key)), ("fixed_ip_address",), of="guest_port",
        reset=lambda conn, key: [conn.network.delete_ip(each) for each in conn.network.ips(port_id=key)],
    ),
    "snapshot_edit": Kind(
        "/volume-snapshots/{snapshot}/edit/", {"description": "it's"}, named("block_storage", "snapshot"),
        ("id", "description"),
    ),
    "rename": Kind(
        "/instances/{server}/rename/", {"description": "-x 'q'", "hostname": "other"},
        lambda conn, name: conn.compute.get_server(conn.compute.find_server(name, ignore_missing=False)),
        ("id", "description", "hostname"),
    ),
    "tags": Kind(
        "/instances/{server}/tags/", {"tags": "a\nb"}, by_id("compute", "server"), ("tags",), of="server",
        reset=lambda conn, key: conn.compute.put(f"/servers/{key}/tags", json={"tags": ["old"]}, microversion="2.26"),
    ),
    "metadata": Kind(
        "/instances/{server}/metadata/", {"metadata": "a=it's\nb=2"}, by_id("compute", "server"), ("metadata",),
        of="server",
        reset=lambda conn, key: conn.compute.put(f"/servers/{key}/metadata", json={"metadata": {"o": "x"}}),
    ),
    "reset_state": Kind(
        "/instances/{server}/reset-state/", {"state": "active"}, by_id("compute", "server"), ("status",), "admin",
        of="server", reset=lambda conn, key: conn.compute.reset_server_state(key, "error"),
    ),
    "hardware": Kind(
        "/images/{image}/hardware/", {"hw_disk_bus": "scsi", "hw_video_model": ""}, by_id("image", "image"),
        ("hw_disk_bus", "hw_video_model"), "admin", of="image",
        reset=lambda conn, key: conn.image.update_image(key, hw_disk_bus="virtio", hw_video_model="vga"),
    ),
    "quotas": Kind(
        "/projects/{project}/quotas/",
        {"how-cores": "limit", "limit-cores": "21", "how-volumes": "limit", "limit-volumes": "12",
         "how-networks": "limit", "limit-networks": "7"},
        limits, ("cores", "volumes", "networks"), "admin", of="project", reset=without_limits,
    ),
    "project_edit": Kind(
        "/projects/{spare_project}/edit/", {"description": "-x 'q' $HOME", "tags": "a, b"},
        named("identity", "project"), ("id", "description", "tags"), "admin",
    ),
    "user_edit": Kind(
        "/users/{user}/edit/", {"email": "e@x.org", "description": "it's"}, named("identity", "user"),
        ("id", "email", "description"), "admin",
    ),
    "user_password": Kind(
        "/users/{user}/password/", {"how": "type", "password": "not-copied-1"}, by_id("identity", "user"), ("id",),
        "admin", of="user",
    ),
}  # fmt: skip
"""Name of the kind, which the names of what is created begin with → its form."""
LANDING = ("network", "user")
"""One kind of several calls, and one with a secret."""
NOT_IN_ANSIBLE = {"reachable", "rename", *(name for name, kind in KINDS.items() if name.endswith("_edit") or kind.of)}
"""The collection has no floating IPs without servers, and changes resources by their names."""


@dataclass
class Copied:
    """The pages of a cloud, and the programs that run their lines."""

    cloud: OneMachine
    folder: Path
    sessions: dict[str, requests.Session] = field(default_factory=dict)
    number: int = 100

    def session(self, user: str) -> requests.Session:
        if user not in self.sessions:
            result = self.sessions[user] = requests.Session()
            address = f"{self.cloud.url}/auth/login/"
            [token] = set(TOKEN.findall(result.get(address).text))
            typed = {"user_name": user, "password": self.cloud.password(user), "csrfmiddlewaretoken": token}
            assert result.post(address, typed).ok
        return self.sessions[user]

    def lines(self, kind: Kind, name: str, things: Mapping[str, str]) -> dict[str, str]:
        """Return the lines of a form by the name of the program."""
        self.number += 1
        known = {**things, "number": str(self.number)}
        session, address = self.session(kind.user), self.cloud.url + kind.path.format(**known)
        typed = {key: value.format(**known) if "{" in value else value for key, value in kind.typed.items()}
        token = TOKEN.findall(session.get(address).text)[0]
        answer = session.post(address, {"name": name, **typed, "copy_as": "1", "csrfmiddlewaretoken": token})
        assert answer.status_code == 200, re.findall(r"field-error.*?</span>", answer.text, re.DOTALL)
        return {key: html.unescape(text) for key, text in TEXT.findall(answer.text)}

    def run(self, form: str, text: str, user: str) -> None:
        """Run lines as a person with the clouds.yaml of *API access*."""
        clouds = yaml.safe_load((self.cloud.data / "clouds.yaml").read_text())["clouds"]
        (self.folder / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"novella": clouds[user]}}))
        (self.folder / "disk.raw").write_bytes(b"\x55" * 65_536)
        (self.folder / "site.yml").write_text(text)
        playbook = ("-i", "localhost,", "-e", f"ansible_python_interpreter={ANSIBLE / 'python'}", "site.yml")
        command: Mapping[str, tuple[str | Path, ...]] = {
            "openstack": ("bash", "-euo", "pipefail", "-c", text),
            "curl": ("bash", "-euo", "pipefail", "-c", text),
            "python": (sys.executable, "-W", "ignore", "-c", text),
            "ansible": (ANSIBLE / "ansible-playbook", *playbook),
        }
        environment = ENVIRONMENT | {
            "OS_CLIENT_CONFIG_FILE": str(self.folder / "clouds.yaml"),
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PASSWORD": "a-long-enough-Password-1",
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        done = subprocess.run(
            command[form], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"

    def created_alike(self, names: tuple[str, ...], forms: tuple[str, ...]) -> None:
        """Run the lines of kinds in each form; what they create differs in nothing but the name."""
        conns = {user: connect(self.cloud, name=user) for user in ("demo", "admin")}
        used = {each for name in names for _, each, _, _ in Formatter().parse(KINDS[name].path) if each}
        things = self._things(conns["demo"], volume=bool({"volume", "snapshot"} & used))
        if any("_edit" in name or KINDS[name].of for name in names):
            things |= self._edited(conns, things)
        for name in names:
            kind, result = KINDS[name], {}
            for form in forms:
                if form == "ansible" and name in NOT_IN_ANSIBLE:
                    continue
                called, conn = f"{name}-{form}", conns[kind.user]
                subject = things[kind.of] if kind.of else called
                if kind.reset is not None:
                    kind.reset(conn, subject)
                self.run(form, self.lines(kind, called, things)[form], kind.user)
                made = kind.find(conn, subject)
                result[form] = {each: getattr(made, each, None) for each in kind.compared}
            first = next(iter(result.values()))
            assert all(each == first for each in result.values()), (name, result)

    @staticmethod
    def _edited(conns: Mapping[str, Connection], things: Mapping[str, str]) -> dict[str, str]:
        """Create what the edits change."""
        conn, admin = conns["demo"], conns["admin"]
        net = conn.network.create_network(name="edited")
        conn.network.create_subnet(name="edited", network_id=net.id, cidr="10.99.0.0/24", ip_version=4)
        server = conn.compute.create_server(
            name="edited", image_id=things["image"], flavor_id=things["flavor"], networks=[{"uuid": things["network"]}]
        )
        conn.compute.wait_for_server(server, wait=int(PATIENCE), interval=0.3)
        found = {
            "port": conn.network.create_port(name="edited", network_id=net.id).id,
            "router": conn.network.create_router(name="edited").id,
            "group": conn.network.create_security_group(name="edited").id,
            "server": server.id,
            "guest_port": next(conn.network.ports(device_id=server.id)).id,
            "project": str(UUID(admin.identity.find_project("demo", ignore_missing=False).id)),
            "spare_project": str(UUID(admin.identity.create_project(name="edited", tags=["old"]).id)),
            "user": str(UUID(admin.identity.create_user(name="edited").id)),
        }
        if "volume" in things:
            snapshot = conn.block_storage.create_snapshot(name="edited", volume_id=things["volume"])
            found["snapshot"] = conn.block_storage.wait_for_status(snapshot, "available", interval=0.3).id
        return found

    @staticmethod
    def _things(conn: Connection, *, volume: bool) -> dict[str, str]:
        result: dict[str, str] = {}
        if volume:
            made = conn.block_storage.create_volume(name="base", size=1)
            conn.block_storage.wait_for_status(made, "available", interval=0.3, wait=int(PATIENCE))
            result = {"volume": made.id}
        return result | {
            "network": conn.network.find_network("demo-net", ignore_missing=False).id,
            "outside": conn.network.find_network("public", ignore_missing=False).id,
            "image": conn.image.find_image("novella-guest", ignore_missing=False).id,
            "flavor": conn.compute.find_flavor("m1.nano", ignore_missing=False).id,
        }


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Copied]:
    """A cloud of its own: the lines create things of every kind in it."""
    with running(simulate=1) as cloud:
        yield Copied(cloud, tmp_path)


def test_the_lines_of_two_kinds_create_the_same(own: Copied) -> None:
    own.created_alike(LANDING, FORMS)


@pytest.mark.timeout(3600)  # some two hundred programs are started
def test_the_lines_of_every_kind_create_the_same(own: Copied) -> None:
    own.created_alike(tuple(each for each in KINDS if each not in LANDING), (*FORMS, "ansible"))
