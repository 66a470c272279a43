"""Flavors over HTTP."""

from __future__ import annotations

import pytest

from tests.compute_api.conftest import NEWEST, V21
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db


def test_list_and_show(api: Api, cloud: Cloud) -> None:
    listed = api.get(f"{V21}/flavors/detail").json()["flavors"]
    assert [flavor["name"] for flavor in listed] == ["m1.small", "m1.big"]
    assert set(api.get(f"{V21}/flavors").json()["flavors"][0]) == {"id", "name", "links"}
    shown = api.get(f"{V21}/flavors/1").json()["flavor"]
    assert (shown["ram"], shown["vcpus"], shown["disk"], shown["swap"]) == (1024, 1, 2, "")
    assert [f["id"] for f in api.get(f"{V21}/flavors?minRam=2000").json()["flavors"]] == ["2"]
    assert api.get(f"{V21}/flavors?minRam=lots").status_code == 400
    assert api.get(f"{V21}/flavors/77").json()["itemNotFound"]["code"] == 404


def test_operators_make_and_delete(people: People, cloud: Cloud) -> None:
    operator = Api(people.operator, **NEWEST)
    body = {"flavor": {"name": "tiny", "ram": 128, "vcpus": 1, "disk": 1, "description": "for tests"}}
    made = operator.post(f"{V21}/flavors", body)
    assert made.status_code == 200, made.content
    assert made.json()["flavor"]["description"] == "for tests"
    assert operator.post(f"{V21}/flavors", body).status_code == 409
    assert operator.delete(f"{V21}/flavors/{made.json()['flavor']['id']}").status_code == 202
    assert (
        operator.post(f"{V21}/flavors", {"flavor": {"name": "x", "ram": 0, "vcpus": 1, "disk": 1}}).status_code == 400
    )


def test_a_private_flavor_is_invisible_and_unusable(api: Api, cloud: Cloud, people: People) -> None:
    operator = Api(people.operator)
    private = operator.post(
        f"{V21}/flavors",
        {
            "flavor": {
                "name": "secret",
                "id": "s3",
                "ram": 64,
                "vcpus": 1,
                "disk": 1,
                "os-flavor-access:is_public": False,
            }
        },
    )
    assert private.status_code == 200
    assert api.get(f"{V21}/flavors/s3").status_code == 404
    launched = api.post(f"{V21}/servers", {"server": {"name": "x", "imageRef": str(cloud.image.id), "flavorRef": "s3"}})
    assert launched.status_code == 400
    assert "s3" in launched.json()["badRequest"]["message"]
