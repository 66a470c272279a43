"""Lists and shapes of flavors at each microversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from provisioning.compute.models import Flavor, Instance
from provisioning.identity import policy
from tests.compute_api.conftest import V21
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import derived
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
FLAVORS = f"{V21}/flavors"


def at(version: str) -> dict[str, str]:
    return {"OpenStack_API_Version": f"compute {version}"}


def make(flavorid: str, **columns: Any) -> Flavor:
    values = {"name": f"f-{flavorid}", "vcpus": 1, "memory_mb": 64, "root_gb": 1}
    return Flavor.objects.create(flavorid=flavorid, **(values | columns))


def ids(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [flavor["id"] for flavor in answer.json()["flavors"]]


@pytest.fixture
@derived
def operator(people: People) -> Api:
    return Api(people.operator)


@each_row(
    ("query", "expected"),
    [
        ("", ["a", "b", "c"]),
        ("?sort_dir=desc", ["c", "b", "a"]),
        ("?sort_key=memory_mb", ["c", "a", "b"]),
        ("?sort_key=memory_mb&sort_dir=desc", ["b", "a", "c"]),
        ("?sort_key=swap", ["b", "c", "a"]),
        ("?sort_key=updated_at", ["b", "c", "a"]),
        ("?minRam=100", ["a", "b"]),
        ("?minRam=100&minDisk=5", ["b"]),
        ("?minRam=-5", ["a", "b", "c"]),
        ("?limit=0", []),
        ("?marker=a", ["b", "c"]),
        ("?marker=b&sort_key=memory_mb&sort_dir=desc", ["a", "c"]),
    ],
)
def test_sorted_filtered_and_paged(api: Api, query: str, expected: list[str]) -> None:
    make("b", memory_mb=300, root_gb=9)
    make("c", memory_mb=64)
    make("a", memory_mb=200, swap_mb=7)
    assert ids(api.get(FLAVORS + query)) == expected
    assert ids(api.get(f"{FLAVORS}/detail{query}")) == expected


def test_pages_are_linked(api: Api) -> None:
    for name in "abc":
        make(name)
    seen, url = [], f"{FLAVORS}/detail?limit=2&sort_key=name"
    for _ in range(3):
        answer = api.get(url)
        seen.append(ids(answer))
        links = answer.json().get("flavors_links")
        if not links:
            break
        assert "sort_key=name" in links[0]["href"]
        url = links[0]["href"].partition("8000")[2]
    assert seen == [["a", "b"], ["c"]]


@each_row(
    ("query", "word"),
    [
        ("limit=x", "limit"),
        ("limit=-1", "limit"),
        ("marker=nothing", "marker [nothing] not found"),
        ("marker=a%00b", "marker"),
        ("sort_key=colour", "sort_key"),
        ("sort_dir=up", "sort_dir"),
        ("minDisk=much", "Invalid minDisk filter [much]"),
        ("minRam=99999999999999999999", "minRam"),
    ],
)
def test_wrong_queries_are_named(api: Api, query: str, word: str) -> None:
    for path in (FLAVORS, f"{FLAVORS}/detail"):
        answer = api.get(f"{path}?{query}")
        assert answer.status_code == 400
        assert word in answer.json()["badRequest"]["message"]


@each_row(("version", "status"), [("2.1", 200), ("2.74", 200), ("2.75", 400), ("2.96", 400)])
def test_unknown_parameters_are_refused_from_2_75(api: Api, version: str, status: int) -> None:
    for path in (FLAVORS, f"{FLAVORS}/detail"):
        assert api.get(f"{path}?colour=red&limit=1", **at(version)).status_code == status


def test_operators_choose_who_is_listed(api: Api, operator: Api, people: People) -> None:
    make("open")
    make("shut", is_public=False)
    granted = make("granted", is_public=False)
    granted.access.create(project_id=people.alice.project_id)
    make("off", disabled=True)
    assert ids(api.get(FLAVORS)) == ["granted", "open"]
    assert ids(api.get(f"{FLAVORS}?is_public=false")) == ["granted", "open"], "only operators choose"
    assert ids(operator.get(FLAVORS)) == ["off", "open"]
    assert ids(operator.get(f"{FLAVORS}?is_public=no")) == ["granted", "shut"]
    assert ids(operator.get(f"{FLAVORS}?is_public=None")) == ["granted", "off", "open", "shut"]
    wrong = operator.get(f"{FLAVORS}?is_public=perhaps")
    assert (wrong.status_code, wrong.json()["badRequest"]["message"]) == (400, "Invalid is_public filter [perhaps]")
    assert operator.get(f"{FLAVORS}/off").json()["flavor"]["OS-FLV-DISABLED:disabled"] is True


ALWAYS = {
    "id", "name", "ram", "vcpus", "disk", "swap", "links", "rxtx_factor", "OS-FLV-EXT-DATA:ephemeral",
    "OS-FLV-DISABLED:disabled", "os-flavor-access:is_public",
}  # fmt: skip


@each_row(
    ("version", "more", "swap"),
    [
        ("2.1", set(), ""),
        ("2.54", set(), ""),
        ("2.55", {"description"}, ""),
        ("2.60", {"description"}, ""),
        ("2.61", {"description", "extra_specs"}, ""),
        ("2.74", {"description", "extra_specs"}, ""),
        ("2.75", {"description", "extra_specs"}, 0),
        ("2.96", {"description", "extra_specs"}, 0),
    ],
)
def test_each_version_has_its_fields(api: Api, operator: Api, version: str, more: set[str], swap: object) -> None:
    make("a", extra_specs={"k": "v"})
    body = {"flavor": {"name": "made", "id": "m", "ram": "64", "vcpus": 1, "disk": 0}}
    made = operator.post(FLAVORS, body, **at(version)).json()["flavor"]
    shown = api.get(f"{FLAVORS}/a", **at(version)).json()["flavor"]
    listed = api.get(f"{FLAVORS}/detail?limit=1", **at(version)).json()["flavors"][0]
    for shape in (made, shown, listed):
        assert set(shape) == ALWAYS | more
        assert shape["swap"] == swap
    assert listed == shown
    assert shown.get("extra_specs", {"k": "v"}) == {"k": "v"}
    brief = api.get(f"{FLAVORS}?limit=1", **at(version)).json()["flavors"][0]
    assert set(brief) == {"id", "name", "links"} | (more & {"description"})


def test_extra_specs_are_for_those_who_may_see_them(api: Api, tmp_path: Path, settings: Settings) -> None:
    make("a", extra_specs={"k": "v"})
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    settings.POLICY_FILE.write_text('"os_compute_api:os-flavor-extra-specs:index": "role:admin"\n')
    policy.load()
    assert "extra_specs" not in api.get(f"{FLAVORS}/a", **at("2.61")).json()["flavor"]
    settings.POLICY_FILE.unlink()
    policy.load()


@each_row(
    ("change", "word"),
    [
        ({"ram": "9" * 5000}, "ram"),
        ({"ram": ""}, "ram"),
        ({"ram": 0}, "ram"),
        ({"vcpus": 2**31}, "vcpus"),
        ({"vcpus": "2147483648"}, "vcpus"),
        ({"disk": -1}, "disk"),
        ({"disk": True}, "disk"),
        ({"swap": "1\n"}, "swap"),
        ({"swap": None}, "swap"),
        ({"rxtx_factor": "9" * 60}, "rxtx_factor"),
        ({"rxtx_factor": 0}, "rxtx_factor"),
        ({"rxtx_factor": "0.0"}, "rxtx_factor"),
        ({"name": " x"}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"id": "a/b"}, "id"),
        ({"id": " a"}, "id"),
        ({"os-flavor-access:is_public": "maybe"}, "is_public"),
        ({"description": "x"}, "description"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_flavor_is_named(operator: Api, change: dict[str, Any], word: str) -> None:
    body = {"flavor": {"name": "f", "ram": 1, "vcpus": 1, "disk": 1} | change}
    answer = operator.post(FLAVORS, body)
    assert answer.status_code == 400, answer.content
    assert word in answer.json()["badRequest"]["message"]
    assert not Flavor.objects.exists()


def test_names_and_ids_are_taken_once(operator: Api) -> None:
    body = {"flavor": {"name": "one", "id": 5, "ram": 1, "vcpus": 1, "disk": 1, "rxtx_factor": "1.5", "swap": "8"}}
    made = operator.post(FLAVORS, body).json()["flavor"]
    assert (made["id"], made["rxtx_factor"], made["swap"]) == ("5", 1.5, 8)
    answer = operator.post(FLAVORS, body)
    assert (answer.status_code, answer.json()["conflictingRequest"]["message"]) == (
        409,
        "Flavor with name one already exists.",
    )
    body["flavor"]["name"] = "two"
    assert operator.post(FLAVORS, body).json()["conflictingRequest"]["message"] == "Flavor with ID 5 already exists."


@each_row(("version", "status"), [("2.1", 404), ("2.54", 404), ("2.55", 200), ("2.96", 200)])
def test_the_description_changes_from_2_55(operator: Api, api: Api, version: str, status: int) -> None:
    make("a")
    body = {"flavor": {"description": "for tests"}}
    answer = operator.put(f"{FLAVORS}/a", body, **at(version))
    assert answer.status_code == status
    assert api.put(f"{FLAVORS}/a", body, **at(version)).status_code == 403
    if status == 200:
        assert answer.json()["flavor"]["description"] == "for tests"
        assert operator.put(f"{FLAVORS}/b", body, **at(version)).status_code == 404
        for wrong in ({}, {"description": 1}, {"description": "x" * 65_536}, {"description": "x", "name": "y"}):
            assert operator.put(f"{FLAVORS}/a", {"flavor": wrong}, **at(version)).status_code == 400
        emptied = operator.put(f"{FLAVORS}/a", {"flavor": {"description": None}}, **at(version))
        assert emptied.json()["flavor"]["description"] is None


def test_a_running_server_keeps_its_copy(operator: Api, api: Api, cloud: Cloud, server: str) -> None:
    before = Instance.objects.get(id=server).flavor
    operator.post(f"{FLAVORS}/1/os-extra_specs", {"extra_specs": {"hw:cpu_policy": "shared"}})
    assert operator.delete(f"{FLAVORS}/1").status_code == 202
    assert Instance.objects.get(id=server).flavor == before
    assert api.get(f"{V21}/servers/{server}", **at("2.47")).json()["server"]["flavor"]["extra_specs"] == {}


def test_a_list_costs_the_same_whatever_its_size(api: Api) -> None:
    counts = []
    for many in (1, 20):
        Flavor.objects.all().delete()
        for number in range(many):
            make(str(number))
        with CaptureQueriesContext(connection) as captured:
            assert len(ids(api.get(f"{FLAVORS}/detail", **at("2.96")))) == many
        counts.append(len(captured))
    assert counts[0] == counts[1]
