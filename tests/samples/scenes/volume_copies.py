"""Snapshots, backups, groups and their snapshots of the Block Storage API."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from provisioning.volumes.models import Backup
from tests.samples.recorder import Scene, Version
from tests.samples.scenes.volumes import NEWEST, answer_for_pools, made, pools, volume
from tests.support.backup_host import BackupHost, ClientLink, MemoryCopies


def snapshots(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v3/snapshots", "/v3/snapshots/{snapshot_id}"
    agent = pools(scene)
    ident = volume(scene)
    body = {"volume_id": ident, "name": "before", "description": "Mine", "metadata": {"shade": "red"}}
    new = play("create", "POST", path, {"snapshot": body}, keep=NEWEST)
    scene.let("snapshot_id", new["snapshot"]["id"])
    play("create of what is not there", "POST", path, {"snapshot": {"volume_id": new["snapshot"]["id"]}})
    action = f"{one}/action"
    play("update the status", "POST", action, {"os-update_snapshot_status": {"status": "error"}}, who="operator")
    scene.cloud.run()
    play("list", "GET", path)
    play("list whole ones", "GET", f"{path}/detail")
    play("show", "GET", one)
    play("show another's", "GET", one, who="charlie")
    play("update", "PUT", one, {"snapshot": {"name": "other", "description": "Other"}})
    scene.ids["key"] = "shade"
    play("list metadata", "GET", f"{one}/metadata")
    play("add metadata", "POST", f"{one}/metadata", {"metadata": {"size": "large"}})
    play("replace metadata", "PUT", f"{one}/metadata", {"metadata": {"size": "large"}})
    play("show an item", "GET", f"{one}/metadata/{{key}}")
    play("set an item", "PUT", f"{one}/metadata/{{key}}", {"meta": {"shade": "green"}})
    play("delete an item", "DELETE", f"{one}/metadata/{{key}}")
    play("reset the status", "POST", action, {"os-reset_status": {"status": "error"}}, who="operator")
    play("update what is there", "POST", action, {"os-update_snapshot_status": {"status": "error"}}, who="operator")
    play("delete by force", "POST", action, {"os-force_delete": None}, who="operator")
    play("delete", "DELETE", one, keep=NEWEST)
    scene.cloud.run()
    play("show what is gone", "GET", one)
    made(scene, "snapshots", "snapshot", {"volume_id": ident})
    play("unmanage", "POST", action, {"os-unmanage": None}, who="operator", keep=NEWEST)
    scene.cloud.run()
    answer_for_pools(agent, patch)
    [left] = next(iter(agent.pools.values())).snapshots
    place = scene.api("operator").get("/volume/v3/scheduler-stats/get_pools").json()["pools"][0]["name"]
    manageable, quoted = "/v3/manageable_snapshots", place.replace("#", "%23")
    play("manageable snapshots", "GET", f"{manageable}?host={quoted}", who="operator", since=(3, 8))
    play("whole manageable snapshots", "GET", f"{manageable}/detail?host={quoted}", who="operator", since=(3, 8))
    body = {"volume_id": ident, "ref": {"source-name": left}, "name": "again"}
    play("manage", "POST", manageable, {"snapshot": body}, who="operator", since=(3, 8), keep=NEWEST)


def backups(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v3/backups", "/v3/backups/{backup_id}"
    patch.setattr(settings, "BACKUP_DIR", settings.IMAGE_DIR.parent / "backups")
    agent = pools(scene)
    agent.backups = BackupHost(ClientLink(agent.host), MemoryCopies(settings.IMAGE_DIR.parent))
    body = {"volume_id": volume(scene), "name": "monday", "description": "Mine"}
    new = play("create", "POST", path, {"backup": body}, keep=NEWEST)
    scene.let("backup_id", new["backup"]["id"])
    scene.cloud.run()
    play("create of what is not there", "POST", path, {"backup": {"volume_id": new["backup"]["id"]}})
    play("list", "GET", path)
    play("list whole ones", "GET", f"{path}/detail")
    play("list whole ones for an operator", "GET", f"{path}/detail?all_tenants=1", who="operator")
    play("show", "GET", one)
    play("show another's", "GET", one, who="charlie")
    play("update", "PUT", one, {"backup": {"name": "tuesday"}}, since=(3, 9))
    play("restore", "POST", f"{one}/restore", {"restore": {"name": "again"}})
    record = play("export", "GET", f"{one}/export_record", who="operator")["backup-record"]
    play("reset the status", "POST", f"{one}/action", {"os-reset_status": {"status": "error"}}, who="operator")
    play("delete by force", "POST", f"{one}/action", {"os-force_delete": None}, who="operator")
    play("delete", "DELETE", one)
    play("import what is there", "POST", f"{path}/import_record", {"backup-record": record}, who="operator")
    Backup.objects.filter(id=new["backup"]["id"]).delete()
    play("import", "POST", f"{path}/import_record", {"backup-record": record}, who="operator")
    play("show what is gone", "GET", one)


def groups(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    path, one = "/v3/groups", "/v3/groups/{group_id}"

    def play(name: str, *asked: Any, since: Version = (3, 13), **more: Any) -> Any:
        return scene.play(name, *asked, since=since, **more)

    pools(scene)
    kind = made(scene, "types", "volume_type", {"name": "fast"}, who="operator")["id"]
    sort = made(scene, "group_types", "group_type", {"name": "together"}, who="operator")["id"]
    body = {"name": "both", "description": "Mine", "group_type": sort, "volume_types": [kind]}
    new = play("create", "POST", path, {"group": body}, keep=NEWEST)
    group = scene.let("group_id", new["group"]["id"])
    scene.cloud.run()
    member = volume(scene, volume_type="fast", group_id=group)
    play("list", "GET", path)
    play("list whole ones", "GET", f"{path}/detail")
    play("show", "GET", f"{one}?list_volume=True")
    play("show to an operator", "GET", one, who="operator")
    play("show another's", "GET", one, who="charlie")
    play("update", "PUT", one, {"group": {"name": "other", "remove_volumes": member}})
    play("update nothing", "PUT", one, {"group": {"name": None}})
    reset = {"reset_status": {"status": "error"}}
    play("reset the status", "POST", f"{one}/action", reset, since=(3, 20), who="operator")
    play("delete", "POST", f"{one}/action", {"delete": {"delete-volumes": True}})
    play("delete what has volumes", "POST", f"{one}/action", {"delete": {"delete-volumes": False}})
    source = {"create-from-src": {"name": "copy", "source_group_id": group}}
    play("create from another", "POST", f"{path}/action", source, since=(3, 14))


def group_snapshots(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    path, one = "/v3/group_snapshots", "/v3/group_snapshots/{group_snapshot_id}"

    def play(name: str, *asked: Any, since: Version = (3, 14), **more: Any) -> Any:
        return scene.play(name, *asked, since=since, **more)

    pools(scene)
    kind = made(scene, "types", "volume_type", {"name": "fast"}, who="operator")["id"]
    sort = made(scene, "group_types", "group_type", {"name": "together"}, who="operator")["id"]
    group = made(scene, "groups", "group", {"name": "both", "group_type": sort, "volume_types": [kind]})["id"]
    volume(scene, volume_type="fast", group_id=group)
    body = {"group_snapshot": {"group_id": group, "name": "before", "description": "Mine"}}
    new = play("create", "POST", path, body, keep=NEWEST)
    scene.let("group_snapshot_id", new["group_snapshot"]["id"])
    scene.cloud.run()
    play("list", "GET", path)
    play("list whole ones", "GET", f"{path}/detail")
    play("show", "GET", one)
    play("show to an operator", "GET", one, who="operator")
    reset = {"reset_status": {"status": "error"}}
    play("reset the status", "POST", f"{one}/action", reset, since=(3, 20), who="operator")
    play("delete", "DELETE", one, keep=NEWEST)
    scene.cloud.run()
    play("show what is gone", "GET", one)


SCENES = {
    "snapshots": snapshots,
    "backups": backups,
    "groups": groups,
    "group_snapshots": group_snapshots,
}
