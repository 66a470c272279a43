"""Pages of the dashboard and of the admin that are asked for what cannot be: never an error of ours."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.support.cast import Api, Person, sign_in_browser

pytestmark = pytest.mark.usefixtures("plain_static")


@pytest.fixture
def pages(operator: Person) -> Client:
    client = Client(raise_request_exception=False)
    sign_in_browser(client, operator)
    return client


@pytest.mark.parametrize("page", ["domains", "projects", "users", "groups", "roles"])
@pytest.mark.parametrize("query", ["domain=default", "domain=%00", "domain=x&q=%00&page=-1&state=%00", "page=9999999"])
def test_lists_of_the_dashboard(pages: Client, page: str, query: str) -> None:
    assert pages.get(f"/{page}/?{query}").status_code == 200


@pytest.mark.parametrize("path", ["key-pairs/%00/delete", "flavors/a%00/delete", "domains/%00/edit"])
def test_addresses_of_the_dashboard(pages: Client, path: str) -> None:
    """PostgreSQL looks up no NUL character."""
    assert pages.get(f"/{path}/").status_code == 404
    assert pages.post(f"/{path}/").status_code == 404


@pytest.mark.parametrize("value", ["x", "\0", "9" * 30, "{name}"])
@pytest.mark.parametrize("page", ["endpoint", "region", "service"])
def test_forms_of_the_admin(pages: Client, page: str, value: str) -> None:
    fields = dict.fromkeys(("id", "parent", "region", "service", "interface", "type"), value)
    assert pages.post(f"/admin/identity/{page}/add/", fields).status_code in {200, 400}
    assert pages.get(f"/admin/identity/{page}/add/", fields).status_code in {200, 400}


@pytest.mark.slow
def test_addresses_of_the_admin(pages: Client, operator: Person) -> None:
    here = f"/admin/identity/user/{operator.user.id}/change/"
    requested = {
        f"{here}?_to_field=": 400,
        f"{here}?_to_field=password": 400,
        f"{here}?_to_field=id": 200,
        "/admin/identity/domain/%00/change/": 400,
        "/admin/identity/domain/x/change/?_to_field=user": 400,
        "/admin/identity/user/?domain__id__exact=%00": 400,
        "/admin/identity/user/?password__startswith=a": 400,
        "/admin/identity/applicationcredential/?secret_hash__startswith=a": 400,
        "/admin/identity/credential/?encrypted_blob__contains=a": 400,
        "/admin/identity/credential/?user__password__contains=a": 400,
        "/admin/identity/user/?enabled__exact=1&domain__id__exact=default&q=a": 200,
        "/admin/identity/user/x/change/": 302,
    }
    assert {path: pages.get(path).status_code for path in requested} == requested
    fields = {"action": "disable", "_selected_action": ["x", "\0"], "confirmed": "yes"}
    assert pages.post("/admin/identity/user/", fields).status_code in {302, 400}


@pytest.mark.parametrize("path", ["flavors/%00", "flavors/%00/os-extra_specs", "os-keypairs/a%00"])
def test_addresses_of_the_compute_api(operator: Person, path: str) -> None:
    """Refused before PostgreSQL refuses to look for it."""
    for method in ("GET", "DELETE") if "specs" not in path else ("GET",):
        answer = Api(operator)._send(method, f"/compute/v2.1/{path}")
        assert answer.status_code == 404
        assert answer.json()["itemNotFound"]["message"] == "The resource could not be found."
