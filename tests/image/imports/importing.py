"""How the tests ask for an import, and where they look."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from provisioning.images.models import Image, ImageTask
from provisioning.jobs.queue.cast import verify
from tests.support.cast import Api, Person
from tests.support.web import Web, web_server

V2 = "/image/v2"


DATA = "application/octet-stream"


@pytest.fixture
def web(settings: Settings) -> Iterator[Web]:
    with web_server() as web:
        settings.IMPORT_ALLOWED_PORTS = [80, web.port]
        settings.IMPORT_ALLOWED_NETWORKS = [ipaddress.ip_network("127.0.0.1/32")]
        yield web


def ask(person: Person, image: Image, uri: str | None = None, **more: Any) -> Any:
    """Ask for an import, from the web or of what is staged."""
    method = {"name": "web-download", "uri": uri} if uri is not None else {"name": "glance-direct"}
    return Api(person).post(f"{V2}/images/{image.id}/import", {"method": method, **more})


def put(person: Person, image: Image, data: bytes, **headers: str) -> Any:
    """Stage data."""
    path = f"{V2}/images/{image.id}/stage"
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Api(person).client.generic("PUT", path, data, content_type=DATA, headers={**person.headers, **given})


def show(person: Person, image: Image) -> Any:
    return Api(person).get(f"{V2}/images/{image.id}").json()


def task_of(image: Image) -> ImageTask:
    return ImageTask.objects.get(image_id=image.id)


def task_id(text: str) -> str:
    return str(verify(text).payload["task_id"])
