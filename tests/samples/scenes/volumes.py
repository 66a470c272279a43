"""Versions, volumes with their actions and metadata, attachments and transfers of the Block Storage API."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from compute_agent.contract.volume import PoolContents, PoolContentsCall
from provisioning.hosts import calls
from tests.samples.recorder import Scene, Version
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool

NEWEST: Version = (3, 70)
HEADERS = {"OpenStack_API_Version": "volume 3.70"}
VOLUMES, VOLUME = "/v3/volumes", "/v3/volumes/{volume_id}"


def pools(scene: Scene) -> ScriptedAgent:
    """Give the cloud a host with two pools, ``local``, where volumes are put, and ``other``, which is smaller."""
    agent = scene.cloud.add_host("kelvin")
    agent.serve(ScriptedPool(), ScriptedPool(name="other", total_gb=10.0, free_gb=10.0))
    return agent


def answer_for_pools(agent: ScriptedAgent, patch: pytest.MonkeyPatch) -> None:
    """Let the host list the volumes of its pools."""

    def call(_: uuid.UUID, body: PoolContentsCall, __: float) -> PoolContents:
        return agent.pools[body.pool_id].contents()

    patch.setattr(calls, "call", call)


def made(scene: Scene, path: str, name: str, body: dict[str, Any], who: str = "alice") -> dict[str, Any]:
    """Make one over HTTP without keeping the pair, and give its id the name ``<name>_id``."""
    answer = scene.api(who).post(f"/volume/v3/{path}", {name: body}, **HEADERS)
    assert answer.status_code in {200, 202}, answer.content
    result: dict[str, Any] = answer.json()[name]
    scene.let(f"{name}_id", result["id"])
    scene.cloud.run()
    return result


def volume(scene: Scene, **values: Any) -> str:
    return str(made(scene, "volumes", "volume", {"size": 1, "name": "data", **values})["id"])


def act(scene: Scene, name: str, argument: Any = None, who: str = "alice") -> None:
    """Do something with the volume without keeping the pair."""
    url = f"/volume/v3/volumes/{scene.ids['volume_id']}/action"
    answer = scene.api(who).post(url, {name: argument}, **HEADERS)
    assert answer.status_code in {200, 202}, answer.content
    scene.cloud.run()


def versions(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    scene.play("versions", "GET", "/")
    scene.play("version", "GET", "/v3/")
    scene.play("extensions", "GET", "/v3/extensions")
    scene.play("filters", "GET", "/v3/resource_filters", since=(3, 36))


def volumes(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play = scene.play
    pools(scene)
    body = {"size": 1, "name": "data", "description": "Mine", "metadata": {"shade": "red"}}
    new = play("create", "POST", VOLUMES, {"volume": body}, keep=NEWEST)
    scene.let("volume_id", new["volume"]["id"])
    play("show while it is made", "GET", VOLUME)
    scene.cloud.run()
    play("create without a size", "POST", VOLUMES, {"volume": {"name": "data"}})
    play("create what is no volume", "POST", VOLUMES, {"volume": {"size": -1}})
    play("create of an image", "POST", VOLUMES, {"volume": {"size": 1, "imageRef": str(scene.ids["image_id"])}})
    play("create of a volume", "POST", VOLUMES, {"volume": {"size": 2, "source_volid": new["volume"]["id"]}})
    play("create what a reader may not", "POST", VOLUMES, {"volume": body}, who="bob")
    play("list", "GET", VOLUMES)
    play("list whole ones", "GET", f"{VOLUMES}/detail")
    play("list whole ones for an operator", "GET", f"{VOLUMES}/detail?all_tenants=1", who="operator")
    play("a page", "GET", f"{VOLUMES}/detail?limit=1&sort=name:asc&with_count=True", since=(3, 45))
    play("list by what is no attribute", "GET", f"{VOLUMES}?nonsense=1")
    play("summary", "GET", f"{VOLUMES}/summary", since=(3, 13))
    play("show", "GET", VOLUME)
    play("show to an operator", "GET", VOLUME, who="operator")
    play("show another's", "GET", VOLUME, who="charlie")
    play("update", "PUT", VOLUME, {"volume": {"name": "other", "description": "Other"}})
    play("update another's", "PUT", VOLUME, {"volume": {"name": "other"}}, who="charlie")
    play("delete another's", "DELETE", VOLUME, who="charlie")
    play("delete", "DELETE", VOLUME, keep=NEWEST)
    scene.cloud.run()
    play("show what is gone", "GET", VOLUME)


def metadata(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, f"{VOLUME}/metadata", f"{VOLUME}/metadata/{{key}}"
    pools(scene)
    scene.ids["key"] = "shade"
    volume(scene, metadata={"shade": "red"})
    play("list", "GET", path)
    play("add", "POST", path, {"metadata": {"size": "large"}})
    play("replace", "PUT", path, {"metadata": {"size": "large"}})
    stale = {"If-Match": '"0123456789abcdef"'}
    play("replace at another state", "PUT", path, {"metadata": {"size": "large"}}, headers=stale)
    play("show one", "GET", one)
    play("set one", "PUT", one, {"meta": {"shade": "green"}})
    play("set one at another state", "PUT", one, {"meta": {"shade": "green"}}, headers=stale)
    play("set another one", "PUT", one, {"meta": {"tint": "green"}})
    play("delete one", "DELETE", one, keep=NEWEST)
    play("delete what is gone", "DELETE", one)


def volume_actions(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    pools(scene)
    ident, path = volume(scene), f"{VOLUME}/action"

    def play(name: str, argument: Any = None, who: str = "alice", more: str = "", since: Version = (0, 0)) -> None:
        scene.play(f"{name}{more}", "POST", path, {name: argument}, who=who, since=since)

    play("os-extend", {"new_size": 2})
    play("os-extend", {"new_size": 1}, more=" to less")
    play("os-reset_status", {"status": "error"}, who="operator")
    play("os-reset_status", {"status": "error"}, more=" by another")
    play("os-force_delete", who="operator")
    play("os-reserve")
    play("os-set_bootable", {"bootable": True})
    play("os-update_readonly_flag", {"readonly": True})
    play("os-set_image_metadata", {"metadata": {"os_distro": "debian"}})
    play("os-volume_upload_image", {"image_name": "copy", "disk_format": "raw"})
    act(scene, "os-set_image_metadata", {"metadata": {"os_distro": "debian"}})
    play("os-show_image_metadata")
    play("os-unset_image_metadata", {"key": "os_distro"})
    play("os-unset_image_metadata", {"key": "nothing"}, more=" that is not there")
    play("os-reimage", {"image_id": str(scene.ids["image_id"])}, since=(3, 68))
    kind = scene.api("operator").post("/volume/v3/types", {"volume_type": {"name": "fast"}}).json()["volume_type"]
    scene.let("volume_type_id", kind["id"])
    play("os-retype", {"new_type": "fast", "migration_policy": "never"})
    host = scene.api("operator").get(f"/volume/v3/volumes/{ident}").json()["volume"]["os-vol-host-attr:host"]
    other = host.replace("#local", "#other") if "#local" in host else host.replace("#other", "#local")
    play("os-migrate_volume", {"host": other}, who="operator")
    play("os-migrate_volume_completion", {"new_volume": ident}, who="operator")
    play("os-extend_volume_completion", {"error": False}, who="operator", since=(3, 71))
    play("os-unmanage", who="operator")
    taken = scene.api("alice").post("/volume/v3/snapshots", {"snapshot": {"volume_id": ident}}).json()["snapshot"]
    scene.let("snapshot_id", taken["id"])
    scene.cloud.run()
    play("revert", {"snapshot_id": taken["id"]}, since=(3, 40))


def actions_of_attachments(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    pools(scene)
    volume(scene)
    path = f"{VOLUME}/action"
    server = scene.let("server_id", str(uuid.uuid4()))

    def play(name: str, argument: Any = None, who: str = "alice", more: str = "") -> None:
        scene.play(f"{name}{more}", "POST", path, {name: argument}, who=who)

    act(scene, "os-reserve")
    play("os-reserve", more=" again")
    play("os-initialize_connection", {"connector": {"host": "kelvin"}})
    play("os-unreserve")
    play("os-terminate_connection", {"connector": {"host": "kelvin"}})
    act(scene, "os-unreserve")
    attach = {"instance_uuid": server, "mountpoint": "/dev/vdb"}
    play("os-attach", attach)
    act(scene, "os-attach", attach)
    scene.play("show", "GET", VOLUME)
    play("os-begin_detaching")
    play("os-force_detach", {}, who="operator")
    play("os-detach", {})
    act(scene, "os-begin_detaching")
    play("os-roll_detaching")


def attachments(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one, since = scene.play, "/v3/attachments", "/v3/attachments/{attachment_id}", (3, 27)
    pools(scene)
    ident, server = volume(scene), scene.let("server_id", str(uuid.uuid4()))
    body = {"volume_uuid": ident, "instance_uuid": server}
    play("create before there were any", "POST", path, {"attachment": body}, until=(3, 25))
    new = play("create", "POST", path, {"attachment": body}, since=since, keep=NEWEST)
    scene.let("attachment_id", new["attachment"]["id"])
    play("create another", "POST", path, {"attachment": body}, since=since)
    play("update", "PUT", one, {"attachment": {"connector": {"host": "kelvin"}}}, since=since, keep=NEWEST)
    play("update for a host that is not there", "PUT", one, {"attachment": {"connector": {"host": "x"}}}, since=since)
    scene.cloud.run()
    play("complete", "POST", f"{one}/action", {"os-complete": None}, since=(3, 44), keep=NEWEST)
    play("list", "GET", path, since=since)
    play("list whole ones", "GET", f"{path}/detail", since=since)
    play("show", "GET", one, since=since)
    play("show to an operator", "GET", one, since=since, who="operator")
    play("show another's", "GET", one, since=since, who="charlie")
    play("delete for a server that there is not", "DELETE", one, since=since)
    act(scene, "os-force_detach", {"attachment_id": new["attachment"]["id"]}, who="operator")
    new = play("reserve", "POST", path, {"attachment": {"volume_uuid": ident}}, since=since, keep=NEWEST)
    scene.let("attachment_id", new["attachment"]["id"])
    play("delete", "DELETE", one, since=since)


def transfers(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    pools(scene)
    body = {"transfer": {"volume_id": volume(scene), "name": "gift"}}
    for word, path, since in (("old", "/v3/os-volume-transfer", (0, 0)), ("new", "/v3/volume-transfers", (3, 55))):
        one = f"{path}/{{transfer_id}}"

        def play(name: str, *asked: Any, word: str = word, since: Version = since, **more: Any) -> Any:
            return scene.play(f"{name} ({word})", *asked, since=since, **more)

        new = play("create", "POST", path, body, keep=NEWEST)
        scene.let("transfer_id", new["transfer"]["id"])
        play("create it again", "POST", path, body)
        play("list", "GET", path)
        play("list whole ones", "GET", f"{path}/detail")
        play("show", "GET", one)
        play("show another's", "GET", one, who="charlie")
        key = scene.let("auth_key", new["transfer"]["auth_key"])
        play("accept", "POST", f"{one}/accept", {"accept": {"auth_key": key}}, who="charlie")
        play("accept with another key", "POST", f"{one}/accept", {"accept": {"auth_key": "x"}}, who="charlie")
        play("delete", "DELETE", one, keep=NEWEST)


SCENES = {
    "versions": versions,
    "volumes": volumes,
    "volume_metadata": metadata,
    "volume_actions": volume_actions,
    "volume_actions_of_attachments": actions_of_attachments,
    "attachments": attachments,
    "transfers": transfers,
}
