"""Limits, quotas, messages, services, hosts and pools of the Block Storage API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.samples.recorder import Scene
from tests.samples.scenes.volumes import HEADERS, answer_for_pools, pools, volume


def quotas(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, one = scene.play, "/v3/os-quota-sets/{project_id}"
    pools(scene)
    volume(scene)
    scene.ids["project_id"] = scene.person("alice").project_id.hex
    scene.ids["quota_class_name"] = "default"
    play("limits", "GET", "/v3/limits")
    play("show", "GET", one)
    play("show the use", "GET", f"{one}?usage=True")
    play("show another's", "GET", one, who="charlie")
    play("defaults", "GET", f"{one}/defaults")
    play("update", "PUT", one, {"quota_set": {"volumes": 7}}, who="operator")
    play("update what only operators may", "PUT", one, {"quota_set": {"volumes": 7}})
    play("update what there is not", "PUT", one, {"quota_set": {"moons": 7}}, who="operator")
    play("delete", "DELETE", one, who="operator")
    name = "/v3/os-quota-class-sets/{quota_class_name}"
    play("show the class", "GET", name, who="operator")
    play("update the class", "PUT", name, {"quota_class_set": {"volumes": 7}}, who="operator")


def messages(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    path, one, since = "/v3/messages", "/v3/messages/{message_id}", (3, 3)
    answer = scene.api("alice").post("/volume/v3/volumes", {"volume": {"size": 1}}, **HEADERS)
    scene.let("volume_id", answer.json()["volume"]["id"])
    scene.let("message_id", scene.api("alice").get("/volume/v3/messages", **HEADERS).json()["messages"][0]["id"])
    scene.play("list", "GET", path, since=since)
    scene.play("show", "GET", one, since=since)
    scene.play("show another's", "GET", one, since=since, who="charlie")
    scene.play("delete", "DELETE", one, since=since)


def services(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    pools(scene)
    volume(scene)
    path = "/v3/os-services"

    def play(name: str, *asked: Any, who: str = "operator", **more: Any) -> Any:
        return scene.play(name, *asked, who=who, **more)

    result = scene.api("operator").get("/volume/v3/os-services?binary=cinder-volume").json()["services"][0]
    named = {"host": result["host"], "binary": "cinder-volume"}
    play("list", "GET", path)
    play("list what only operators may", "GET", path, who="alice")
    play("disable", "PUT", f"{path}/disable", named)
    play("disable with a reason", "PUT", f"{path}/disable-log-reason", named | {"disabled_reason": "new disks"})
    play("enable", "PUT", f"{path}/enable", named)
    play("enable what is not there", "PUT", f"{path}/enable", named | {"host": "moon@fake"})
    play("freeze", "PUT", f"{path}/freeze", {"host": result["host"]})
    play("thaw", "PUT", f"{path}/thaw", {"host": result["host"]})
    play("fail over", "PUT", f"{path}/failover_host", {"host": result["host"]})
    pool = scene.api("operator").get("/volume/v3/scheduler-stats/get_pools").json()["pools"][0]["name"]
    scene.ids["host_name"] = scene.ids["hostname"] = pool.replace("#", "%23")
    place = pool.replace("#", "%23")
    play("hosts", "GET", "/v3/os-hosts")
    play("host", "GET", "/v3/os-hosts/{host_name}")
    play("capabilities", "GET", "/v3/capabilities/{hostname}")
    play("pools", "GET", "/v3/scheduler-stats/get_pools")
    play("pools with their room", "GET", "/v3/scheduler-stats/get_pools?detail=True")
    play("zones", "GET", "/v3/os-availability-zone", who="alice")
    play("clusters", "GET", "/v3/clusters", since=(3, 8))
    play("whole clusters", "GET", "/v3/clusters/detail", since=(3, 8))
    play("manageable volumes", "GET", f"/v3/manageable_volumes?host={place}", since=(3, 8))
    play("whole manageable volumes", "GET", f"/v3/manageable_volumes/detail?host={place}", since=(3, 8))
    disk = {"volume": {"host": pool, "ref": {"source-name": "disk"}}}
    play("take over a disk", "POST", "/v3/manageable_volumes", disk, since=(3, 8))


def unlisted(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """What Cinder answers beside its reference."""
    agent = pools(scene)
    volume(scene)
    place = scene.api("operator").get("/volume/v3/scheduler-stats/get_pools").json()["pools"][0]["name"]

    def play(name: str, *asked: Any, who: str = "operator", **more: Any) -> Any:
        return scene.play(name, *asked, who=who, **more)

    play("encryption of a volume", "GET", "/v3/volumes/{volume_id}/encryption")
    scene.ids["key"] = "cipher"
    play("the cipher of a volume", "GET", "/v3/volumes/{volume_id}/encryption/{key}")
    quoted = place.replace("#", "%23")
    answer_for_pools(agent, patch)
    next(iter(agent.pools.values())).snapshots["old"] = scene.ids["volume_id"]
    for what in ("volume", "snapshot"):
        play(f"{what}s to be taken over", "GET", f"/v3/os-{what}-manage?host={quoted}")
        play(f"whole {what}s to be taken over", "GET", f"/v3/os-{what}-manage/detail?host={quoted}")
    taken = {"snapshot": {"volume_id": scene.ids["volume_id"], "ref": {"source-name": "old"}}}
    play("manage a snapshot by its old name", "POST", "/v3/os-snapshot-manage", taken)
    disk = {"volume": {"host": place, "ref": {"source-name": "disk"}}}
    play("take over a disk by its old name", "POST", "/v3/os-volume-manage", disk)
    scene.ids["host_name"] = quoted
    play("disable a host", "PUT", "/v3/os-hosts/{host_name}", {"status": "disable"})


SCENES = {"quotas": quotas, "messages": messages, "services": services, "unlisted": unlisted}
