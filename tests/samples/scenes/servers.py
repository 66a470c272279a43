"""Versions, and servers themselves."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.volumes import services as volumes
from provisioning.volumes.models import VolumeType
from tests.samples.recorder import Scene
from tests.support.jobs import drain
from tests.support.scripted_pool import ScriptedPool

V = (2, 1)


def body(scene: Scene, **more: Any) -> dict[str, Any]:
    return {"server": {"name": "web", "imageRef": str(scene.cloud.image.id), "flavorRef": "1", **more}}


def bodies(scene: Scene, **more: Any) -> dict[tuple[int, int], Any]:
    """From 2.37 on networks must be asked for."""
    nets = [{"uuid": str(scene.cloud.network.id)}]
    return {V: body(scene, **more), (2, 37): body(scene, **more, networks=nets)}


def server(scene: Scene, ident: str = "server_id", *, who: str = "alice", host: str = "h1", **more: Any) -> str:
    """Launch a server over HTTP without keeping the pair."""
    if host not in scene.cloud.agents:
        scene.cloud.add_host(host)
    sent = body(scene, **more)
    answer = scene.api(who).post("/compute/v2.1/servers", sent)
    assert answer.status_code == 202, answer.content
    scene.cloud.run()
    return str(scene.let(ident, answer.json()["server"]["id"]))


def volume(scene: Scene, ident: str = "volume_id", *, size: int = 1, host: str = "h1") -> str:
    """Make a volume of alice's, in a pool of a host, without keeping the pair."""
    if host not in scene.cloud.agents:
        scene.cloud.add_host(host)
    if not scene.cloud.agents[host].pools:
        scene.cloud.agents[host].serve(ScriptedPool())
    requested = volumes.VolumeRequest(size_gb=size, name="data")
    made = volumes.Create.begin(scene.person("alice").context, requested)
    scene.cloud.run()
    return str(scene.let(ident, made.id))


def attach(scene: Scene) -> None:
    """Give the server the volume, without keeping the pair."""
    sent = {"volumeAttachment": {"volumeId": str(scene.ids["volume_id"])}}
    path = f"/compute/v2.1/servers/{scene.ids['server_id']}/os-volume_attachments"
    answer = scene.api("alice").post(path, sent)
    assert answer.status_code == 200, answer.content
    scene.cloud.run()


def versions(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    scene.play("versions", "GET", "/")
    scene.play("version", "GET", "/v2.1/")


def lists(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene, metadata={"role": "web"}, security_groups=[{"name": "default"}])
    volume(scene)
    attach(scene)
    tagged = {"OpenStack-API-Version": "compute 2.26"}
    scene.api("alice").put(f"/compute/v2.1/servers/{scene.ids['server_id']}/tags", {"tags": ["blue"]}, **tagged)
    scene.play("list", "GET", "/servers")
    scene.play("list in detail", "GET", "/servers/detail")
    scene.play("list in detail for an administrator", "GET", "/servers/detail?all_tenants=1", who="operator")
    server(scene, "second_server_id", name="second")
    scene.play("a page", "GET", "/servers?limit=1&sort_key=display_name&sort_dir=desc")
    scene.play("a page in detail", "GET", "/servers/detail?limit=1")
    scene.play("a filter that is not known", "GET", "/servers?nonsense=1")
    scene.play("a page that is not there", "GET", "/servers?marker=00000000-0000-0000-0000-000000000000")


def show(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    requested = {"server_group": {"name": "g", "policies": ["affinity"]}}
    group = scene.api("alice").post("/compute/v2.1/os-server-groups", requested).json()["server_group"]["id"]
    sent = {**body(scene, metadata={"role": "web"}), "os:scheduler_hints": {"group": group}}
    scene.cloud.add_host("h1")
    answer = scene.api("alice").post("/compute/v2.1/servers", sent)
    scene.let("server_id", answer.json()["server"]["id"])
    scene.cloud.run()
    volume(scene)
    attach(scene)
    scene.api("alice").put(
        f"/compute/v2.1/servers/{scene.ids['server_id']}/tags",
        {"tags": ["blue"]},
        **{"OpenStack-API-Version": "compute 2.26"},
    )
    scene.play("show", "GET", "/servers/{server_id}")
    scene.play("show to an administrator", "GET", "/servers/{server_id}", who="operator")
    scene.play("show to a stranger", "GET", "/servers/{server_id}", who="charlie")
    answer = scene.api("alice").post("/compute/v2.1/servers", body(scene, name="broken", flavorRef="2"))
    scene.let("broken_id", answer.json()["server"]["id"])
    drain()
    [order] = scene.cloud.agents["h1"].take()
    scene.cloud.agents["h1"].fail(order, "The disk is broken.", retryable=False)
    scene.cloud.run()
    scene.ids["server_id"] = scene.ids["broken_id"]
    scene.play("show one in error", "GET", "/servers/{server_id}")


def write(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    scene.cloud.add_host("h1").serve(ScriptedPool())
    play, image = scene.play, str(scene.cloud.image.id)
    play("create", "POST", "/servers", bodies=bodies(scene))
    play(
        "create without a name",
        "POST",
        "/servers",
        {"server": {"imageRef": str(scene.cloud.image.id), "flavorRef": "1", "networks": []}},
    )
    play("create with a wrong field", "POST", "/servers", bodies=bodies(scene, colour="blue"))
    play("create with a description", "POST", "/servers", bodies=bodies(scene, description="Mine"))
    play("create with tags", "POST", "/servers", bodies=bodies(scene, tags=["blue"]))
    play("create with a host name", "POST", "/servers", bodies=bodies(scene, hostname="web-1"))
    play("create with trusted certificates", "POST", "/servers", bodies=bodies(scene, trusted_image_certificates=["a"]))
    play("create with personality", "POST", "/servers", bodies=bodies(scene, personality=[]))
    disks = [
        {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 3}
        | {"delete_on_termination": True},
        {"boot_index": -1, "source_type": "blank", "destination_type": "volume", "volume_size": 1},
    ]
    play("create with block devices", "POST", "/servers", bodies=bodies(scene, block_device_mapping_v2=disks))
    VolumeType.objects.create(name="fast")
    typed = [disks[0] | {"volume_type": "fast"}, disks[1] | {"tag": "data"}]
    play("create with typed disks", "POST", "/servers", bodies=bodies(scene, block_device_mapping_v2=typed))
    play("create on a host", "POST", "/servers", bodies=bodies(scene, host="h1"), who="operator")
    play("create without a network", "POST", "/servers", body(scene, networks="none"))
    play(
        "create several", "POST", "/servers", bodies=bodies(scene, min_count=2, max_count=2, return_reservation_id=True)
    )
    made = play("create and keep", "POST", "/servers", bodies=bodies(scene), since=(2, 96), keep=(2, 96))
    scene.let("server_id", made["server"]["id"])
    scene.cloud.run()
    path = "/servers/{server_id}"
    play("update", "PUT", path, {"server": {"name": "other", "accessIPv4": "192.0.2.1", "OS-DCF:diskConfig": "MANUAL"}})
    play("update for an administrator", "PUT", path, {"server": {"name": "other"}}, who="operator")
    play("update the description", "PUT", path, {"server": {"description": "Mine"}})
    play("update the host name", "PUT", path, {"server": {"hostname": "web-2"}})
    play("delete", "DELETE", path)
    scene._given.discard("server_id")
    scene.ids["server_id"] = "00000000-0000-0000-0000-000000000000"
    play("delete what is not there", "DELETE", path)


SCENES = {"versions": versions, "server_lists": lists, "servers_shown": show, "servers": write}
