"""A small cloud with one host, and the cast as clients of the Compute API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cast import Api, People
from tests.support.clouds import Cloud

V21 = "/compute/v2.1"
NEWEST = {"OpenStack-API-Version": "compute 2.96"}


@pytest.fixture
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1")
    return cloud


@pytest.fixture
def api(people: People) -> Api:
    """Alice at the oldest microversion."""
    return Api(people.alice)


@pytest.fixture
def new_api(people: People) -> Api:
    """Alice at the newest microversion."""
    return Api(people.alice, **NEWEST)


def server_body(cloud: Cloud, **changes: Any) -> dict[str, Any]:
    server = {"name": "web", "imageRef": str(cloud.image.id), "flavorRef": "1", **changes}
    return {"server": {key: value for key, value in server.items() if value is not None}}


def launch(api: Api, cloud: Cloud, **changes: Any) -> str:
    """Launch over HTTP and let the cloud come to rest; returns the server's id."""
    answer = api.post(f"{V21}/servers", server_body(cloud, **changes))
    assert answer.status_code == 202, answer.content
    cloud.run()
    return str(answer.json()["server"]["id"])
