"""The catalog as it stands in tokens: built from the records, and this cloud's own services in them."""

from __future__ import annotations

import uuid
from typing import Any

from pytest_django import DjangoAssertNumQueries, Settings

from provisioning.identity.models import Endpoint, Region, Service
from provisioning.identity.selectors import catalog
from provisioning.identity.selectors.catalog import catalog_for
from provisioning.identity.services.catalog import (
    create_endpoint,
    create_service,
    ensure_catalog,
    update_endpoint,
    update_service,
)
from provisioning.identity.services.endpoint_filters import add_endpoint_to_project
from tests.identity.grants.conftest import V3
from tests.support.cast import Api, People, make_project
from tests.support.tables import each_row

PROJECT = uuid.UUID(int=7)


def urls(catalog: list[dict[str, Any]], type_: str) -> dict[str, str]:
    (entry,) = [each for each in catalog if each["type"] == type_]
    return {each["interface"]: each["url"] for each in entry["endpoints"]}


def test_a_cloud_before_its_bootstrap_has_the_same_catalog(db: None) -> None:
    """Clients keep ids: the records that the bootstrap makes are those that are shown without any."""
    computed = catalog_for(PROJECT)
    assert not Service.objects.exists()
    ensure_catalog()
    assert Service.objects.count() == 7
    assert catalog_for(PROJECT) == computed
    identity = computed[0]
    assert identity["id"] == uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_URL, "novella:catalog"), "identity").hex
    assert (identity["type"], identity["name"]) == ("identity", "keystone")
    assert [each["type"] for each in computed] == [
        "identity",
        "compute",
        "image",
        "network",
        "block-storage",
        "volumev3",
        "ec2",
    ]
    assert identity["endpoints"][1] == {
        "id": uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_URL, "novella:catalog"), "identity/internal").hex,
        "interface": "internal",
        "region": "RegionOne",
        "region_id": "RegionOne",
        "url": "http://127.0.0.1:8000/identity/v3",
    }


def test_ensuring_again_changes_nothing(db: None, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    ensure_catalog()
    Endpoint.objects.filter(service__type="image", interface="public").update(
        url="https://images.example", enabled=False
    )
    Service.objects.filter(type="network").update(name="nets", enabled=False)
    before = [list(model.objects.order_by("pk").values()) for model in (Region, Service, Endpoint)]
    with django_assert_max_num_queries(5):  # two are the transaction's
        ensure_catalog()
    assert [list(model.objects.order_by("pk").values()) for model in (Region, Service, Endpoint)] == before


def test_what_is_missing_is_made_anew(db: None) -> None:
    ensure_catalog()
    whole = catalog_for(None)
    Service.objects.get(type="image").delete()
    Endpoint.objects.filter(service__type="compute", interface="admin").delete()
    ensure_catalog()
    assert catalog_for(None) == whole


def test_another_address_is_followed_at_once(db: None, settings: Settings) -> None:
    ensure_catalog()
    settings.PUBLIC_URL = "https://cloud.example"
    assert set(urls(catalog_for(None), "compute").values()) == {"https://cloud.example/compute/v2.1"}
    assert urls(catalog_for(None, public_url="http://b"), "image")["public"] == "http://b/image"


def test_another_region_is_followed(db: None, settings: Settings) -> None:
    ensure_catalog()
    volume = create_service("sharev2")
    settings.REGION = "North"
    ensure_catalog()
    regions = {each["region"] for entry in catalog_for(None) for each in entry["endpoints"]}
    assert regions == {"North"}
    assert [region.id for region in catalog.regions()] == ["North"]
    create_endpoint(volume, "public", "http://v", region=Region.objects.get(id="North"))
    settings.REGION = "South"
    ensure_catalog()
    assert [region.id for region in catalog.regions()] == ["North", "South"]  # North still has something in it


def test_what_is_disabled_stands_in_no_catalog(people: People) -> None:
    image = Service.objects.get(type="image")
    update_service(image, enabled=False)
    compute = Endpoint.objects.get(service__type="compute", interface="admin")
    update_endpoint(compute, enabled=False)
    catalog = Api(people.alice).get(f"{V3}/auth/catalog").json()["catalog"]
    assert [each["type"] for each in catalog] == ["identity", "compute", "network", "block-storage", "volumev3", "ec2"]
    assert set(urls(catalog, "compute")) == {"public", "internal"}
    update_service(image, enabled=True)
    assert "image" in {each["type"] for each in Api(people.alice).get(f"{V3}/auth/catalog").json()["catalog"]}


def test_disabling_every_service_leaves_none(db: None) -> None:
    ensure_catalog()
    Service.objects.update(enabled=False)
    assert catalog_for(PROJECT) == []


def test_addresses_are_filled_in(db: None) -> None:
    ensure_catalog()
    volume = create_service("sharev2", name="manila")
    create_endpoint(volume, "public", "$(public_url)s/volume/$(project_id)s")
    create_endpoint(volume, "internal", "http://inside/%(tenant_id)s")
    create_endpoint(volume, "admin", "http://inside/admin%20page")
    assert urls(catalog_for(PROJECT, public_url="http://c"), "sharev2") == {
        "public": f"http://c/volume/{PROJECT.hex}",
        "internal": f"http://inside/{PROJECT.hex}",
        "admin": "http://inside/admin%20page",
    }
    assert urls(catalog_for(None), "sharev2") == {"admin": "http://inside/admin%20page"}


def test_a_service_without_endpoints_is_listed(db: None) -> None:
    ensure_catalog()
    create_service("dns", name="designate")
    assert catalog_for(None)[-1]["endpoints"] == []


def test_a_new_endpoint_stands_in_the_next_token(people: People) -> None:
    api = Api(people.operator)
    service = api.post(f"{V3}/services", {"service": {"type": "sharev2", "name": "manila"}}).json()["service"]
    body = {"interface": "public", "url": "$(public_url)s/volume/v3/$(project_id)s", "service_id": service["id"]}
    endpoint = api.post(f"{V3}/endpoints", {"endpoint": body}).json()["endpoint"]
    catalog = Api(people.alice).get(f"{V3}/auth/catalog").json()["catalog"]
    assert catalog[-1] == {
        "id": service["id"],
        "type": "sharev2",
        "name": "manila",
        "endpoints": [
            {
                "id": endpoint["id"],
                "interface": "public",
                "region": None,
                "region_id": None,
                "url": f"http://127.0.0.1:8000/volume/v3/{people.alice.project_id.hex}",
            }
        ],
    }


def test_a_catalog_takes_one_query(db: None, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Also when other projects have endpoints of their own."""
    ensure_catalog()
    for number in range(20):
        endpoint = create_endpoint(create_service(f"s{number}"), "public", "http://x")
    add_endpoint_to_project(endpoint, make_project("other"))
    with django_assert_num_queries(1):
        assert len(catalog_for(PROJECT)) == 27


@each_row("type_", ["identity", "compute", "image", "network"])
def test_own_services_are_where_the_catalog_says(people: People, type_: str) -> None:
    url = urls(catalog_for(people.alice.project_id), type_)["public"].removeprefix("http://127.0.0.1:8000")
    assert Api(people.alice).get(url).status_code in {200, 300}
