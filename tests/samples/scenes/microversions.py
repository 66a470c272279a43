"""What single microversions changed in requests that no other scene has."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.compute.models import Instance
from provisioning.images.models import Image
from provisioning.volumes.models import Volume
from tests.samples.recorder import Scene
from tests.samples.scenes.actions import act, do, put
from tests.samples.scenes.server_parts import PATH
from tests.samples.scenes.servers import server, volume
from tests.support.scripted_pool import ScriptedPool

EARLY = "2001-01-01T00:00:00Z"


def filters(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """2.5, 2.21, 2.38, 2.66 and 2.83."""
    server(scene)
    play = scene.play
    play("servers by IPv6 address", "GET", "/servers?ip6=2001:db8::1")
    play("servers by a status that there is not", "GET", "/servers?status=nonsense")
    play("servers by a state, for a member", "GET", "/servers?vm_state=stopped")
    play("servers changed before a time", "GET", f"/servers?changes-before={EARLY}")
    play("actions before a time", "GET", f"{PATH}/os-instance-actions?changes-before={EARLY}", since=(2, 58))
    do(scene, "forceDelete")
    play("actions of a deleted server", "GET", f"{PATH}/os-instance-actions")


def access(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """2.7: nobody is let in to what is public."""
    scene.ids["flavor_id"] = "1"
    add = {"addTenantAccess": {"tenant": str(scene.people.alice.project_id)}}
    scene.play("grant access to a public flavor", "POST", "/flavors/{flavor_id}/action", add, who="operator")


def events(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """2.51, 2.76, 2.82 and 2.93: names of events."""
    ident = server(scene)
    for name, tag in (
        ("volume-extended", "t"),
        ("power-update", "POWER_OFF"),
        ("accelerator-request-bound", "t"),
        ("volume-reimaged", "t"),
    ):
        event = {"name": name, "tag": tag, "server_uuid": ident}
        scene.play(f"event {name}", "POST", "/os-server-external-events", {"events": [event]}, who="operator")


def moved(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """2.56: the host that a server is to be moved to is looked at."""
    server(scene)
    act(scene, "migrate", {"host": "nowhere"}, who="operator", label="migrate to a host that there is not")


def names(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """2.94: host names with dots."""
    server(scene)
    scene.play("a host name with dots", "PUT", PATH, {"server": {"hostname": "web.example.org"}})
    anew = {"imageRef": str(scene.cloud.image.id), "hostname": "web.example.org"}
    act(scene, "rebuild", anew, label="rebuild with dots")


def attachments(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """2.20 and 2.60: volumes of servers on the shelf, and of several servers."""
    server(scene)
    volume(scene)
    path = f"{PATH}/os-volume_attachments"
    body = {"volumeAttachment": {"volumeId": str(scene.ids["volume_id"])}}
    host = Instance.objects.get(id=scene.ids["server_id"]).host
    put(scene, vm_state="shelved_offloaded", host=None, power_state=4)
    scene.play("attach to a server on the shelf", "POST", path, body)
    put(scene, vm_state="active", host=host, power_state=1)
    Volume.objects.update(multiattach=True)
    scene.play("attach what several servers may have", "POST", path, body)


def on_volumes(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """2.87 and 2.93: rescue and rebuild of servers that boot from a volume."""
    scene.cloud.add_host("h1").serve(ScriptedPool())
    root = {"boot_index": 0, "uuid": str(scene.cloud.image.id), "source_type": "image", "destination_type": "volume"}
    server(scene, imageRef="", block_device_mapping_v2=[root | {"volume_size": 1}])
    image = Image.objects.get(id=scene.cloud.image.id)
    image.pk, image.name = "00000000-0000-0000-0000-0000000000aa", "other"
    image.properties = {"hw_rescue_device": "disk", "hw_rescue_bus": "virtio"}
    image.save(force_insert=True)
    act(scene, "rescue", {"rescue_image_ref": str(image.pk)}, label="rescue what boots from a volume")
    act(scene, "rebuild", {"imageRef": str(image.pk)}, label="rebuild what boots from a volume")


SCENES: dict[str, Any] = {
    "since_filters": filters,
    "since_access": access,
    "since_events": events,
    "since_moves": moved,
    "since_host_names": names,
    "since_attachments": attachments,
    "since_boot_volumes": on_volumes,
}
