"""The Image API."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from django.conf import settings

from tests.samples.recorder import Scene
from tests.support.jobs import drain

V = (2, 96)
"""The Image API has no microversions: what is kept is kept at the one that there is."""
RAW = {"name": "picture", "disk_format": "raw", "container_format": "bare"}
PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
ONE = "/v2/images/{image_id}"


def made(scene: Scene, data: bytes | None = None, **values: Any) -> str:
    """Make an image over HTTP without keeping the pair."""
    api = scene.api("alice")
    answer = api.post("/image/v2/images", RAW | values)
    assert answer.status_code == 201, answer.content
    ident = answer.json()["id"]
    if data is not None:
        sent = api.client.generic(
            "PUT", f"/image/v2/images/{ident}/file", data, content_type="application/octet-stream", headers=api.headers
        )
        assert sent.status_code == 204, sent.content
    return str(scene.let("image_id", ident))


def versions(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    scene.play("at the root", "GET", "/")
    scene.play("asked for", "GET", "/versions")
    scene.play("below", "GET", "/v2")


def images(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play = scene.play
    play("list", "GET", "/v2/images")
    new = play("create", "POST", "/v2/images", RAW | {"tags": ["blue"], "os_distro": "cirros"}, keep=V)
    play("create nothing", "POST", "/v2/images", {})
    play("create with a wrong format", "POST", "/v2/images", {"disk_format": "nonsense"})
    play("create with what is read only", "POST", "/v2/images", {"status": "active"})
    scene.let("image_id", new["id"])
    play("show what waits for data", "GET", ONE)
    play("download nothing", "GET", f"{ONE}/file")
    play("upload", "PUT", f"{ONE}/file", b"\x55" * 1000, keep=V)
    play("upload again", "PUT", f"{ONE}/file", b"\x55" * 1000)
    play("show", "GET", ONE)
    play("download", "GET", f"{ONE}/file")
    play("download a part", "GET", f"{ONE}/file", headers={"Range": "bytes=10-19"})
    play("download too far", "GET", f"{ONE}/file", headers={"Range": "bytes=2000-"})
    play("a page", "GET", "/v2/images?limit=1&sort=name:asc")
    play("a wrong filter", "GET", "/v2/images?sort_dir=nonsense")
    changes = [{"op": "replace", "path": "/name", "value": "other"}, {"op": "remove", "path": "/os_distro"}]
    play("change", "PATCH", ONE, changes, headers=PATCH)
    locked = [{"op": "replace", "path": "/status", "value": "queued"}]
    play("change what is read only", "PATCH", ONE, locked, headers=PATCH)
    scene.ids["tag"] = "red"
    play("add a tag", "PUT", f"{ONE}/tags/{{tag}}", keep=V)
    play("remove a tag", "DELETE", f"{ONE}/tags/{{tag}}")
    scene.let("image_dir", settings.IMAGE_DIR)
    where = f"{ONE}/locations"
    play("locations", "GET", where, who="operator")
    play("locations of a member", "GET", where)
    play("add a location", "POST", where, {"url": "http://example.org/disk"})
    play("deactivate", "POST", f"{ONE}/actions/deactivate", keep=V)
    play("download what is deactivated", "GET", f"{ONE}/file")
    play("reactivate", "POST", f"{ONE}/actions/reactivate", keep=V)
    play("delete", "DELETE", ONE, keep=V)
    play("show what is gone", "GET", ONE)


def members(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    made(scene, b"\x55" * 1000, visibility="shared")
    play, path = scene.play, f"{ONE}/members"
    project = str(scene.people.charlie.project_id)
    scene.let("member_id", project)
    play("add", "POST", path, {"member": project}, keep=V)
    play("add again", "POST", path, {"member": project})
    play("list", "GET", path)
    play("show", "GET", f"{path}/{{member_id}}", who="charlie")
    play("accept", "PUT", f"{path}/{{member_id}}", {"status": "accepted"}, who="charlie")
    play("accept for another", "PUT", f"{path}/{{member_id}}", {"status": "accepted"})
    play("remove", "DELETE", f"{path}/{{member_id}}")


def imports(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play = scene.play
    play("import methods", "GET", "/v2/info/import")
    play("stores", "GET", "/v2/info/stores")
    play("stores in detail", "GET", "/v2/info/stores/detail", who="operator")
    play("usage", "GET", "/v2/info/usage")
    made(scene)
    play("stage", "PUT", f"{ONE}/stage", b"\x55" * 1000, keep=V)
    play("show what is staged", "GET", ONE)
    play("import", "POST", f"{ONE}/import", {"method": {"name": "glance-direct"}}, keep=V)
    play("import nonsense", "POST", f"{ONE}/import", {"method": {"name": "nonsense"}})
    play("tasks of an image, waiting", "GET", f"{ONE}/tasks")
    drain()
    play("tasks of an image", "GET", f"{ONE}/tasks")
    listed = play("tasks", "GET", "/v2/tasks", who="operator")
    scene.let("task_id", listed["tasks"][0]["id"])
    play("task", "GET", "/v2/tasks/{task_id}", who="operator")
    requested = {
        "type": "import",
        "input": {"import_from": "http://192.0.2.1/disk", "import_from_format": "raw", "image_properties": RAW},
    }
    play("create a task for what is inside", "POST", "/v2/tasks", requested, who="operator")
    patch.setattr(settings, "IMPORT_ALLOWED_NETWORKS", [ipaddress.ip_network("192.0.2.0/24")])
    play("create a task", "POST", "/v2/tasks", requested, who="operator")
    scene.ids["store_id"] = scene.api("alice").get("/image/v2/info/stores").json()["stores"][0]["id"]
    play("remove from a store", "DELETE", "/v2/stores/{store_id}/{image_id}", who="operator")


def schemas(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    for name in ("images", "image", "members", "member", "tasks", "task"):
        scene.play(name, "GET", f"/v2/schemas/{name}")


SCENES = {"versions": versions, "images": images, "members": members, "imports": imports, "schemas": schemas}
