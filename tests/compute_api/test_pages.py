"""What all lists that are taken page by page share."""

from __future__ import annotations

import pytest

from provisioning.compute.services.key_pairs import create_key_pair
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
LISTS = [
    "servers",
    "servers/detail",
    "flavors",
    "flavors/detail",
    "os-keypairs",
    "os-hypervisors",
    "os-hypervisors/detail",
    "os-migrations",
    "os-simple-tenant-usage",
    "servers/{id}/os-instance-actions",
]


@pytest.fixture
@standing
def resized(people: People, cloud: Cloud) -> str:
    """The id of a server with an action, a migration and a key beside it."""
    operator = Api(people.operator)
    ident = launch(operator, cloud)
    create_key_pair(people.operator.context, "key")
    operator.post(f"{V21}/servers/{ident}/action", {"resize": {"flavorRef": "2"}})
    cloud.run()
    return ident


@each_row(("path", "version"), [*((path, "2.96") for path in LISTS), ("images", "2.35")])
def test_a_page_of_none_is_empty_and_no_number_is_refused(
    people: People, resized: str, path: str, version: str
) -> None:
    operator = Api(people.operator, **{"OpenStack-API-Version": f"compute {version}"})
    url = f"{V21}/{path.format(id=resized)}"
    one, none = (operator.get(f"{url}?limit={limit}").json() for limit in (1, 0))
    [name, *_] = one
    assert len(one[name]) == 1
    assert none == {name: []}
    assert operator.get(f"{url}?limit=").status_code == 400
