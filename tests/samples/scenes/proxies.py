"""What the Compute API once passed on to other services."""

from __future__ import annotations

import pytest

from provisioning.network import services as network
from provisioning.network.models import Network
from tests.samples.recorder import Scene
from tests.samples.scenes.servers import attach, bodies, server, volume

ID = "a26887c6-c47b-4654-abb5-dfadf7d3f803"


def images(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    image = scene.cloud.image
    image.properties = {"os_distro": "cirros", "auto_disk_config": "True"}
    image.project_id = scene.people.alice.project_id
    image.save(update_fields=["properties", "project_id"])
    play, one = scene.play, "/images/{image_id}"
    play("list", "GET", "/images")
    play("list in detail", "GET", "/images/detail")
    play("show", "GET", one)
    scene.ids["key"] = "os_distro"
    play("metadata", "GET", f"{one}/metadata")
    play("change metadata", "POST", f"{one}/metadata", {"metadata": {"a": "b"}})
    play("replace metadata", "PUT", f"{one}/metadata", {"metadata": {"a": "b"}})
    play("show one", "GET", f"{one}/metadata/{{key}}")
    play("set one", "PUT", f"{one}/metadata/{{key}}", {"meta": {"os_distro": "other"}})
    play("remove one", "DELETE", f"{one}/metadata/{{key}}")
    play("delete", "DELETE", one)


def outside(scene: Scene) -> Network:
    """Give the cloud an external network."""
    made = network.create_network(scene.people.operator.project_id, "public", external=True)
    network.create_subnet(made, "203.0.113.0/24", enable_dhcp=False)
    scene.let("public_id", made.id)
    return made


def networks(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play = scene.play
    play("list networks", "GET", "/os-networks")
    play("show a network", "GET", "/os-networks/{network_id}")
    play("list networks for an administrator", "GET", "/os-networks", who="operator")
    play("show a network to an administrator", "GET", "/os-networks/{network_id}", who="operator")
    play("list tenants' networks", "GET", "/os-tenant-networks")
    play("show a tenant's network", "GET", "/os-tenant-networks/{network_id}")
    outside(scene)
    play("pools", "GET", "/os-floating-ip-pools")
    old = {"until": (2, 35), "keep": (2, 35)}
    made = play("create a floating address", "POST", "/os-floating-ips", {"pool": "public"}, **old)
    scene.let("floating_ip_id", made["floating_ip"]["id"])
    play("create one where it is gone", "POST", "/os-floating-ips", {"pool": "public"}, since=(2, 36))
    play("floating addresses", "GET", "/os-floating-ips")
    play("show a floating address", "GET", "/os-floating-ips/{floating_ip_id}")
    play("delete a floating address", "DELETE", "/os-floating-ips/{floating_ip_id}")


def security_groups(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path = scene.play, "/os-security-groups"
    server(scene)
    listed = play("list", "GET", path, until=(2, 35))
    play("list where it is gone", "GET", path, since=(2, 36))
    one = f"{path}/{{security_group_id}}"
    scene.let("security_group_id", listed["security_groups"][0]["id"])
    play("show", "GET", one)
    body = {"security_group": {"name": "web", "description": "Mine"}}
    made = play("create", "POST", path, body, until=(2, 35), keep=(2, 35))
    scene.let("security_group_id", made["security_group"]["id"])
    play("create where it is gone", "POST", path, body, since=(2, 36))
    play("update", "PUT", one, {"security_group": {"name": "other", "description": "Other"}})
    rule = {
        "parent_group_id": made["security_group"]["id"],
        "ip_protocol": "tcp",
        "from_port": 80,
        "to_port": 80,
        "cidr": "0.0.0.0/0",
    }
    added = {"security_group_rule": rule}
    kept = play("create a rule", "POST", "/os-security-group-rules", added, until=(2, 35), keep=(2, 35))
    scene.let("rule_id", kept["security_group_rule"]["id"])
    play("create a rule where it is gone", "POST", "/os-security-group-rules", added, since=(2, 36))
    play("delete a rule", "DELETE", "/os-security-group-rules/{rule_id}")
    play("delete", "DELETE", one)


def volumes(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, gone = scene.play, (2, 36)
    server(scene)
    volume(scene)
    attach(scene)
    requested = {"volume": {"size": 1, "display_name": "vol", "display_description": "Mine", "metadata": {"a": "b"}}}
    play("list volumes", "GET", "/os-volumes")
    play("list volumes in detail", "GET", "/os-volumes/detail")
    play("show a volume", "GET", "/os-volumes/{volume_id}")
    play("delete a volume that a server has", "DELETE", "/os-volumes/{volume_id}")
    made = play("create a volume", "POST", "/os-volumes", requested, until=(2, 35), keep=(2, 35))
    scene.let("made_id", made["volume"]["id"])
    play("create a volume where it is gone", "POST", "/os-volumes", requested, since=gone)
    scene.cloud.run()
    frozen = {"snapshot": {"volume_id": str(scene.ids["volume_id"]), "force": True, "display_name": "snap"}}
    made = play("create a snapshot", "POST", "/os-snapshots", frozen, until=(2, 35), keep=(2, 35))
    scene.let("snapshot_id", made["snapshot"]["id"])
    play("create a snapshot where it is gone", "POST", "/os-snapshots", frozen, since=gone)
    scene.cloud.run()
    play("list snapshots", "GET", "/os-snapshots")
    play("list snapshots in detail", "GET", "/os-snapshots/detail")
    play("show a snapshot", "GET", "/os-snapshots/{snapshot_id}")
    play("delete a snapshot", "DELETE", "/os-snapshots/{snapshot_id}")
    scene.ids["volume_id"] = scene.ids["made_id"]
    play("delete a volume", "DELETE", "/os-volumes/{volume_id}")
    info = {"snapshot": {"volume_id": ID, "create_info": {"snapshot_id": ID, "type": "qcow2", "new_file": "f"}}}
    play("assisted snapshot", "POST", "/os-assisted-volume-snapshots", info, who="operator")
    delete = "/os-assisted-volume-snapshots/{snapshot_id}"
    play("delete an assisted snapshot", "DELETE", delete + '?delete_info={"volume_id":"' + ID + '"}', who="operator")
    scene.ids["node_id"] = ID
    play("nodes", "GET", "/os-baremetal-nodes", who="operator")
    play("node", "GET", "/os-baremetal-nodes/{node_id}", who="operator")


def servers(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """Another address of servers."""
    path, last = "/os-volumes_boot", (2, 96)
    server(scene)
    play, one = scene.play, f"{path}/{{server_id}}"
    play("create", "POST", path, bodies=bodies(scene), since=last)
    play("list", "GET", path, since=last)
    play("list in detail", "GET", f"{path}/detail", since=last)
    play("show", "GET", one, since=last)
    play("update", "PUT", one, {"server": {"name": "other"}}, since=last)
    play("stop", "POST", f"{one}/action", {"os-stop": None}, since=last)
    play("delete", "DELETE", one, since=last)


SCENES = {
    "proxy_servers": servers,
    "proxy_images": images,
    "proxy_networks": networks,
    "proxy_security_groups": security_groups,
    "proxy_volumes": volumes,
}
