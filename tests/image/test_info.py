"""What the service says it offers: methods, stores, usage; and the cache that it has not."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from pytest_django import Settings

from tests.image import pictures
from tests.image.conftest import MakeImage
from tests.image.imports.importing import put
from tests.support.cast import Api, Person
from tests.support.tables import each_row

V2 = "/image/v2"
pytestmark = pytest.mark.django_db


def read(answer: Any) -> bytes:
    """Read to the end, which closes the file."""
    return b"".join(answer.streaming_content) if answer.streaming else b""


def download(person: Person, path: str) -> int:
    """Ask for the data."""
    answer = Api(person).get(path)
    read(answer)
    return int(answer.status_code)


def test_import_methods(alice: Person, settings: Settings) -> None:
    value = {"description": "Import methods available.", "type": "array", "value": ["glance-direct", "web-download"]}
    assert Api(alice).get(f"{V2}/info/import").json() == {"import-methods": value}
    settings.IMPORT_METHODS = ["web-download"]
    assert Api(alice).get(f"{V2}/info/import").json()["import-methods"]["value"] == ["web-download"]


def test_stores(alice: Person, operator: Person, settings: Settings) -> None:
    settings.IMAGE_STORE_ID = "cellar"
    (store,) = Api(alice).get(f"{V2}/info/stores").json()["stores"]
    assert (store["id"], store["default"], set(store)) == ("cellar", "true", {"id", "default", "description"})
    assert Api(alice).get(f"{V2}/info/stores/detail").status_code == 403
    (store,) = Api(operator).get(f"{V2}/info/stores/detail").json()["stores"]
    assert (store["id"], store["type"], store["weight"]) == ("cellar", "file", 0)
    assert store["properties"]["data_dir"] == str(settings.IMAGE_DIR)


def test_a_store_that_there_is_not_is_refused(alice: Person, make: MakeImage, settings: Settings) -> None:
    image = make()
    path = f"{V2}/images/{image.id}/file"

    def upload(store: str) -> int:
        headers = {**alice.headers, "X-Image-Meta-Store": store}
        client = Api(alice).client
        answer = client.generic("PUT", path, b"x", content_type="application/octet-stream", headers=headers)
        return int(answer.status_code)

    assert (upload("fast"), upload("local")) == (400, 204)
    assert download(alice, f"{path}?prefer=fast") == 400
    assert download(alice, f"{path}?prefer=local,fast") == 400
    assert download(alice, f"{path}?prefer=local") == 200


@pytest.mark.slow
def test_usage(alice: Person, charlie: Person, make: MakeImage, settings: Settings) -> None:
    make(data=pictures.raw(3 * pictures.MIB))
    make()
    put(alice, make(), pictures.raw(2 * pictures.MIB))
    make(charlie, data=pictures.raw())
    usage = Api(alice).get(f"{V2}/info/usage").json()["usage"]
    assert usage == {
        "image_size_total": {"limit": 51_200, "usage": 3},
        "image_stage_total": {"limit": 51_200, "usage": 2},
        "image_count_total": {"limit": 100, "usage": 3},
        "image_count_uploading": {"limit": -1, "usage": 1},
    }
    settings.IMAGE_STORAGE_QUOTA = 10 * pictures.MIB
    assert Api(alice).get(f"{V2}/info/usage").json()["usage"]["image_size_total"]["limit"] == 10


def test_the_copy_in_the_only_store_stays(alice: Person, operator: Person, make: MakeImage) -> None:
    image, queued = make(data=pictures.raw()), make()
    api = Api(operator)
    assert Api(alice).delete(f"{V2}/stores/local/{image.id}").status_code == 403
    answer = api.delete(f"{V2}/stores/local/{image.id}")
    assert answer.status_code == 403
    assert "only store" in answer.json()["message"]
    assert api.delete(f"{V2}/stores/fast/{image.id}").status_code == 409
    assert api.delete(f"{V2}/stores/local/{queued.id}").status_code == 409
    assert api.delete(f"{V2}/stores/local/{uuid.uuid4()}").status_code == 404
    assert download(operator, f"{V2}/images/{image.id}/file") == 200


@each_row(
    ("method", "path"),
    [
        ("GET", "cache"),
        ("DELETE", "cache"),
        ("PUT", f"cache/{uuid.UUID(int=1)}"),
        ("DELETE", f"cache/{uuid.UUID(int=1)}"),
        ("POST", "cache/clean"),
        ("POST", "cache/prune"),
    ],
)
def test_there_is_no_cache(alice: Person, operator: Person, method: str, path: str) -> None:
    answers = [Api(person)._send(method, f"{V2}/{path}") for person in (alice, operator)]
    assert [answer.status_code for answer in answers] == [403, 404]
    assert "not supported" in answers[1].json()["message"]


def test_an_old_client_asks_for_a_part_by_content_range(alice: Person, make: MakeImage) -> None:
    image = make(data=bytes(range(100)))
    path = f"{V2}/images/{image.id}/file"

    def part(asked: str) -> tuple[int, bytes]:
        answer = Api(alice).get(path, Content_Range=asked)
        return answer.status_code, read(answer)

    assert part("bytes 10-19/100") == (206, bytes(range(10, 20)))
    assert part("bytes 10-19/*") == (206, bytes(range(10, 20)))
    for wrong in ("bytes 90-100/*", "bytes 20-10/100", "bytes=1-2", "nonsense"):
        assert part(wrong)[0] == 416
    whole = Api(alice).get(path)
    read(whole)
    assert (whole.status_code, whole["Content-MD5"], whole["Accept-Ranges"]) == (200, image.checksum, "bytes")
