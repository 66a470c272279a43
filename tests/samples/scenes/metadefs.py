"""The metadata definitions of the Image API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.samples.recorder import Scene
from tests.samples.scenes.images import V

TOP = "/v2/metadefs/namespaces"
ONE = f"{TOP}/{{namespace_name}}"
SPEED = {"title": "Speed", "type": "string", "enum": ["slow", "fast"]}
THINGS = [{"name": "OS::Glance::Image", "prefix": "acme_"}]
NEW: dict[str, Any] = {"namespace": "Acme::Disk", "display_name": "Disks", "visibility": "public"}


def namespaces(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    def play(name: str, method: str, path: str, body: Any = None, who: str = "operator") -> None:
        scene.play(name, method, path, body, who=who, keep=None if method == "GET" else V)

    full = NEW | {"tags": [{"name": "ssd"}], "properties": {"speed": SPEED}, "resource_type_associations": THINGS}
    play("create", "POST", TOP, full)
    play("create again", "POST", TOP, NEW)
    play("create nothing", "POST", TOP, {})
    play("create by a member", "POST", TOP, {"namespace": "Mine"}, who="alice")
    scene.ids |= {"namespace_name": "Acme::Disk", "name": "OS::Nova::Flavor"}
    play("list", "GET", TOP, who="alice")
    play("a page", "GET", f"{TOP}?limit=1&sort_key=namespace&sort_dir=asc")
    play("a wrong filter", "GET", f"{TOP}?visibility=nonsense")
    play("show", "GET", ONE, who="alice")
    play("show for a thing", "GET", f"{ONE}?resource_type=OS::Glance::Image", who="alice")
    play("change", "PUT", ONE, {**NEW, "protected": True})
    play("delete what is protected", "DELETE", ONE)
    play("change back", "PUT", ONE, NEW)
    play("resource types", "GET", "/v2/metadefs/resource_types", who="alice")
    play("meant for", "GET", f"{ONE}/resource_types", who="alice")
    play("mean it for another", "POST", f"{ONE}/resource_types", {"name": "OS::Nova::Flavor", "prefix": "acme:"})
    play("mean it no longer", "DELETE", f"{ONE}/resource_types/{{name}}")
    play("delete", "DELETE", ONE)


def contents(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    def play(name: str, method: str, path: str, body: Any = None, **more: Any) -> None:
        keep = None if method == "GET" else V
        scene.play(name, method, path, body, **{"who": "operator", "keep": keep, **more})

    scene.api("operator").post(f"/image{TOP}", NEW)
    scene.ids |= {"namespace_name": "Acme::Disk", "object_name": "x", "property_name": "x"}
    for kind, plural, body in (
        ("object", "objects", {"name": "x", "description": "d", "required": ["a"], "properties": {"a": SPEED}}),
        ("property", "properties", {"name": "x", **SPEED}),
    ):
        path = f"{ONE}/{plural}/{{{kind}_name}}"
        play(f"create {kind}", "POST", f"{ONE}/{plural}", body)
        play(f"create {kind} again", "POST", f"{ONE}/{plural}", body)
        play(f"list {plural}", "GET", f"{ONE}/{plural}", who="alice")
        play(f"show {kind}", "GET", path, who="alice")
        play(f"change {kind}", "PUT", path, body)
        play(f"delete {kind}", "DELETE", path)
        play(f"show {kind} that is gone", "GET", path)
        play(f"delete {plural}", "DELETE", f"{ONE}/{plural}")
    scene.ids["tag_name"] = "nvme"
    tag = f"{ONE}/tags/{{tag_name}}"
    play("create tag", "POST", tag)
    play("create tags", "POST", f"{ONE}/tags", {"tags": [{"name": "hdd"}]}, headers={"X-OpenStack-Append": "true"})
    play("list tags", "GET", f"{ONE}/tags?sort_key=name", who="alice")
    play("show tag", "GET", tag, who="alice")
    play("rename tag", "PUT", tag, {"name": "NVMe"})
    play("delete tag", "DELETE", tag)
    play("delete tags", "DELETE", f"{ONE}/tags")


def schemas(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    for name in ("namespace", "resource_type", "object", "property", "tag"):
        plural = "properties" if name == "property" else f"{name}s"
        for each in (name, plural):
            scene.play(each, "GET", f"/v2/schemas/metadefs/{each}")


SCENES = {"metadefs": namespaces, "metadef_contents": contents, "metadef_schemas": schemas}
