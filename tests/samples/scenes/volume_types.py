"""Volume types with their extra specs, access, encryption, QoS specs and defaults, and group types."""

from __future__ import annotations

from typing import Any

import pytest

from tests.samples.recorder import Scene, Version
from tests.samples.scenes.volumes import NEWEST, made

ONE = "/v3/types/{volume_type_id}"


def types(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path = scene.play, "/v3/types"
    body = {"name": "fast", "description": "Quick", "extra_specs": {"multiattach": "<is> True"}}
    play("create what only operators may", "POST", path, {"volume_type": body})
    new = play("create", "POST", path, {"volume_type": body}, who="operator", keep=NEWEST)
    scene.let("volume_type_id", new["volume_type"]["id"])
    play("create it again", "POST", path, {"volume_type": body}, who="operator")
    play("list", "GET", path)
    play("list for an operator", "GET", path, who="operator")
    play("show", "GET", ONE)
    play("show to an operator", "GET", ONE, who="operator")
    play("update", "PUT", ONE, {"volume_type": {"name": "other", "is_public": True}}, who="operator")
    play("delete", "DELETE", ONE, who="operator")
    scene.let("default_type_id", made(scene, "types", "volume_type", {"name": "plain"}, who="operator")["id"])
    url = f"/volume/v3/default-types/{scene.person('alice').project_id.hex}"
    body = {"default_type": {"volume_type": "plain"}}
    assert scene.api("operator").put(url, body, OpenStack_API_Version="volume 3.70").status_code == 200
    play("default", "GET", f"{path}/default")


def extra_specs(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    path, one = f"{ONE}/extra_specs", f"{ONE}/extra_specs/{{key}}"
    made(scene, "types", "volume_type", {"name": "fast", "extra_specs": {"shade": "red"}}, who="operator")
    scene.ids["key"] = "shade"

    def play(name: str, *asked: Any, who: str = "operator", **more: Any) -> Any:
        return scene.play(name, *asked, who=who, **more)

    play("add", "POST", path, {"extra_specs": {"size": "large"}})
    play("list", "GET", path)
    play("show", "GET", one)
    play("set", "PUT", one, {"shade": "green"})
    play("delete", "DELETE", one, keep=NEWEST)
    play("delete what is gone", "DELETE", one)


def encryption(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    path = f"{ONE}/encryption"
    made(scene, "types", "volume_type", {"name": "fast"}, who="operator")
    scene.ids["key"] = "cipher"

    def play(name: str, *asked: Any, who: str = "operator", **more: Any) -> Any:
        return scene.play(name, *asked, who=who, **more)

    body = {"provider": "luks", "control_location": "front-end", "cipher": "aes-xts-plain64", "key_size": 256}
    new = play("create", "POST", path, {"encryption": body}, keep=NEWEST)
    scene.let("encryption_id", new["encryption"]["encryption_id"])
    play("create it again", "POST", path, {"encryption": body})
    play("show", "GET", path)
    play("show a part", "GET", f"{path}/{{key}}")
    play("update", "PUT", f"{path}/{{encryption_id}}", {"encryption": {"key_size": 512}})
    play("delete", "DELETE", f"{path}/{{encryption_id}}")


def access(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    body = {"name": "secret", "os-volume-type-access:is_public": False}
    ident = made(scene, "types", "volume_type", body, who="operator")["id"]
    scene.let("volume_type", ident)
    path = "/v3/types/{volume_type}/action"
    add = {"addProjectAccess": {"project": scene.person("alice").project_id.hex}}
    scene.play("add", "POST", path, add, who="operator", keep=NEWEST)
    scene.play("add again", "POST", path, add, who="operator")
    scene.play("list", "GET", "/v3/types/{volume_type}/os-volume-type-access", who="operator")
    scene.play("remove", "POST", path, {"removeProjectAccess": add["addProjectAccess"]}, who="operator")


def default_types(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    path, one, since = "/v3/default-types", "/v3/default-types/{project-id}", (3, 62)
    made(scene, "types", "volume_type", {"name": "fast"}, who="operator")
    scene.ids["project-id"] = scene.person("alice").project_id.hex

    def play(name: str, *asked: Any, since: Version = since, **more: Any) -> Any:
        return scene.play(name, *asked, who="operator", since=since, **more)

    play("set", "PUT", one, {"default_type": {"volume_type": "fast"}}, keep=NEWEST)
    play("list", "GET", path)
    play("show", "GET", one)
    play("unset", "DELETE", one, keep=NEWEST)
    play("show what is gone", "GET", one)


def qos_specs(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    path, one = "/v3/qos-specs", "/v3/qos-specs/{qos_id}"
    kind = made(scene, "types", "volume_type", {"name": "fast"}, who="operator")["id"]

    def play(name: str, *asked: Any, who: str = "operator", **more: Any) -> Any:
        return scene.play(name, *asked, who=who, **more)

    body = {"name": "limits", "consumer": "front-end", "total_iops_sec": "100", "total_bytes_sec": "1000"}
    new = play("create", "POST", path, {"qos_specs": body}, keep=NEWEST)
    scene.let("qos_id", new["qos_specs"]["id"])
    play("create what only operators may", "POST", path, {"qos_specs": body}, who="alice")
    play("list", "GET", path)
    play("show", "GET", one)
    play("set", "PUT", one, {"qos_specs": {"total_iops_sec": "200"}})
    play("delete keys", "PUT", f"{one}/delete_keys", {"keys": ["total_bytes_sec"]})
    play("associate", "GET", f"{one}/associate?vol_type_id={kind}", keep=NEWEST)
    play("associations", "GET", f"{one}/associations")
    play("delete what is in use", "DELETE", one)
    play("disassociate", "GET", f"{one}/disassociate?vol_type_id={kind}")
    play("disassociate all", "GET", f"{one}/disassociate_all", keep=NEWEST)
    play("delete", "DELETE", one)


def group_types(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    path, one, since = "/v3/group_types", "/v3/group_types/{group_type_id}", (3, 11)

    def play(name: str, *asked: Any, who: str = "operator", **more: Any) -> Any:
        return scene.play(name, *asked, who=who, since=since, **more)

    body = {"name": "together", "description": "Kept together", "group_specs": {"shade": "red"}}
    new = play("create", "POST", path, {"group_type": body}, keep=NEWEST)
    scene.let("group_type_id", new["group_type"]["id"])
    play("create what only operators may", "POST", path, {"group_type": body}, who="alice")
    play("list", "GET", path, who="alice")
    play("show", "GET", one)
    play("default", "GET", f"{path}/default", who="alice")
    play("update", "PUT", one, {"group_type": {"name": "other"}})
    specs, scene.ids["spec_id"] = f"{one}/group_specs", "shade"
    play("add specs", "POST", specs, {"group_specs": {"size": "large"}})
    play("list specs", "GET", specs)
    play("show a spec", "GET", f"{specs}/{{spec_id}}")
    play("set a spec", "PUT", f"{specs}/{{spec_id}}", {"shade": "green"})
    play("delete a spec", "DELETE", f"{specs}/{{spec_id}}")
    play("delete", "DELETE", one)


SCENES = {
    "types": types,
    "type_extra_specs": extra_specs,
    "type_encryption": encryption,
    "type_access": access,
    "default_types": default_types,
    "qos_specs": qos_specs,
    "group_types": group_types,
}
