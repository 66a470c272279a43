"""Requests to the Image API that several tests make."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cast import Api, Person

V2 = "/image/v2"
PATCH_TYPE = "application/openstack-images-v2.1-json-patch"
OLD_PATCH_TYPE = "application/openstack-images-v2.0-json-patch"


def patch(person: Person, image_id: object, *operations: Any, content_type: str = PATCH_TYPE) -> Any:
    api = Api(person)
    return api.client.patch(
        f"{V2}/images/{image_id}", data=json.dumps(operations), content_type=content_type, headers=api.headers
    )


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def remove(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path}


def names(person: Person, query: str = "") -> list[str]:
    """The names of a list, in its order."""
    answer = Api(person).get(f"{V2}/images?{query}")
    assert answer.status_code == 200, answer.content
    return [image["name"] for image in answer.json()["images"]]
