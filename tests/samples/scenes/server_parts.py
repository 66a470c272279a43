"""What belongs to a server."""

from __future__ import annotations

import pytest

from compute_agent.contract.guest_disks import InspectedDisk
from provisioning.compute.models import Instance
from provisioning.hosts import calls
from provisioning.network import services as network
from provisioning.network.models import FloatingIP
from tests.compute_api.test_diagnostics import DIAGNOSTICS
from tests.samples.recorder import Scene
from tests.samples.scenes.actions import act
from tests.samples.scenes.proxies import outside
from tests.samples.scenes.servers import server, volume
from tests.support.ports import guest_ports

PATH = "/servers/{server_id}"


def metadata(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene, metadata={"role": "web"})
    scene.ids["key"] = "role"
    play, path = scene.play, f"{PATH}/metadata"
    play("list", "GET", path)
    play("change", "POST", path, {"metadata": {"tier": "1"}})
    play("replace", "PUT", path, {"metadata": {"tier": "1"}})
    play("show one", "GET", f"{path}/{{key}}")
    play("set one", "PUT", f"{path}/{{key}}", {"meta": {"role": "db"}})
    play("remove one", "DELETE", f"{path}/{{key}}")
    play("change with a number", "POST", path, {"metadata": {"tier": 1}})
    scene.ids["key"] = "none"
    play("show one that is not there", "GET", f"{path}/{{key}}")


def tags(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    scene.ids["tag"] = "blue"
    play, path = scene.play, f"{PATH}/tags"
    play("add one", "PUT", f"{path}/{{tag}}", keep=(2, 26))
    play("add one that is there", "PUT", f"{path}/{{tag}}")
    play("list", "GET", path)
    play("replace", "PUT", path, {"tags": ["red", "green"]})
    play("show one", "GET", f"{path}/{{tag}}")
    play("remove one", "DELETE", f"{path}/{{tag}}")
    play("remove all", "DELETE", path)
    scene.ids["tag"] = "none"
    play("show one that is not there", "GET", f"{path}/{{tag}}")


def floating_ip(scene: Scene) -> FloatingIP:
    """Take a floating IP that can lead to the cloud's network."""
    alice = scene.people.alice.project_id
    public = outside(scene)
    router = network.create_router(alice, gateway=network.Gateway(public))
    network.add_interface_by_subnet(router, scene.cloud.network.subnets.get(), anywhere=True)
    return network.create_floating_ip(alice, public)


def addresses(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    scene.ids["network_label"] = "net"
    scene.play("addresses", "GET", f"{PATH}/ips")
    scene.play("addresses of a network", "GET", f"{PATH}/ips/{{network_label}}")
    scene.let("port_id", guest_ports().get(device_id=scene.ids["server_id"]).id)
    scene.play("interfaces", "GET", f"{PATH}/os-interface")
    scene.play("interface", "GET", f"{PATH}/os-interface/{{port_id}}")
    scene.play(
        "attach", "POST", f"{PATH}/os-interface", {"interfaceAttachment": {"net_id": str(scene.cloud.network.id)}}
    )
    scene.play("attach with a tag", "POST", f"{PATH}/os-interface", {"interfaceAttachment": {"tag": "lan"}})
    scene.play("detach", "DELETE", f"{PATH}/os-interface/{{port_id}}")
    scene.play("security groups", "GET", f"{PATH}/os-security-groups")
    act(scene, "removeSecurityGroup", {"name": "default"})
    act(scene, "addSecurityGroup", {"name": "default"})
    floating = floating_ip(scene)
    act(scene, "addFloatingIp", {"address": floating.address})
    network.associate(floating, guest_ports().get(device_id=scene.ids["server_id"]))
    act(scene, "removeFloatingIp", {"address": floating.address})
    act(scene, "addFixedIp", {"networkId": str(scene.cloud.network.id)})
    act(scene, "removeFixedIp", {"address": "192.0.2.1"}, label="remove an address that it does not have")
    address = guest_ports().get(device_id=scene.ids["server_id"]).fixed_ips.get().address
    act(scene, "removeFixedIp", {"address": str(address)})


def volumes(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    second, third = volume(scene, "second_volume_id", size=2), volume(scene, "third_volume_id")
    volume(scene)
    play, path = scene.play, f"{PATH}/os-volume_attachments"
    body = {"volumeAttachment": {"volumeId": str(scene.ids["volume_id"])}}
    more = {"tag": "data"}
    play("attach with a tag", "POST", path, {"volumeAttachment": body["volumeAttachment"] | more})
    last = {"volumeAttachment": body["volumeAttachment"] | more | {"delete_on_termination": True}}
    play("attach, to be deleted with the server", "POST", path, last)
    play("attach", "POST", path, body, keep=(2, 96))
    play("attach it again", "POST", path, body)
    scene.cloud.run()
    one = f"{path}/{{volume_id}}"
    play("list", "GET", path)
    play("show", "GET", one)
    kept = {"volumeAttachment": body["volumeAttachment"] | {"delete_on_termination": True}}
    play("delete it with the server", "PUT", one, kept)
    play("update", "PUT", one, {"volumeAttachment": {"volumeId": second}}, who="operator")
    play("update for a member", "PUT", one, {"volumeAttachment": {"volumeId": second}})
    Instance.objects.filter(id=scene.ids["server_id"]).update(image_properties={"hw_qemu_guest_agent": "yes"})
    patch.setattr(calls, "call", lambda *_, **__: InspectedDisk("/dev/vdb", "filesystem", "ext4", "/srv/data"))
    guest = f"{PATH}/novella-guest-disks/{{volume_id}}"
    play("show it in the guest", "GET", guest)
    play("mount it", "POST", f"{guest}/action", {"mount": {"directory": "/srv/data"}})
    scene.cloud.run()
    play("extend its file system", "POST", f"{guest}/action", {"extend_file_system": None})
    play("detach", "DELETE", one)
    scene.ids["volume_id"] = third
    play("show what it does not have", "GET", one)
    play("detach what it does not have", "DELETE", one)


def others(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    patch.setattr(calls, "call", lambda *_, **__: DIAGNOSTICS)
    play = scene.play
    play("diagnostics", "GET", f"{PATH}/diagnostics", who="operator")
    play("topology", "GET", f"{PATH}/topology")
    play("topology for an administrator", "GET", f"{PATH}/topology", who="operator")
    play("password", "GET", f"{PATH}/os-server-password")
    play("forget the password", "DELETE", f"{PATH}/os-server-password")
    done = scene.play("actions", "GET", f"{PATH}/os-instance-actions")
    scene.let("request_id", done["instanceActions"][0]["request_id"])
    play("an action", "GET", f"{PATH}/os-instance-actions/{{request_id}}")
    play("an action for an administrator", "GET", f"{PATH}/os-instance-actions/{{request_id}}", who="operator")
    play("actions page by page", "GET", f"{PATH}/os-instance-actions?limit=1", since=(2, 58))
    play(
        "events",
        "POST",
        "/os-server-external-events",
        {"events": [{"name": "network-changed", "tag": "t", "server_uuid": scene.ids["server_id"]}]},
        who="operator",
    )


SCENES = {
    "server_metadata": metadata,
    "server_tags": tags,
    "server_addresses": addresses,
    "server_volumes": volumes,
    "server_parts": others,
}
