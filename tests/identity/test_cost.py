"""What lists cost does not grow with what they list."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.projects import add_tag
from provisioning.identity.services.users import create_user
from tests.support.cast import Api, People, make_project, sign_in_browser

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.slow]
V3 = "/identity/v3"
LISTS = (
    f"{V3}/auth/projects",
    f"{V3}/projects",
    f"{V3}/users",
    f"{V3}/groups",
    f"{V3}/role_assignments?include_names=true",
    f"{V3}/role_assignments?effective&include_names=true",
)


def _more(people: People, first: int, last: int) -> None:
    for number in range(first, last):
        project = make_project(f"course {number}")
        add_tag(project, "course")
        assign_role(people.operator.user, project, "admin")
        user = create_user(project.domain, f"student {number}")
        assign_role(user, project, "member")
        add_to_group(create_group(project.domain, f"group {number}"), user)


def _queries(client: Api | Client, path: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return len(queries)


def test_the_lists_of_the_api(people: People) -> None:
    api, counts = Api(people.operator), []
    for first, last in ((0, 2), (2, 12)):
        _more(people, first, last)
        counts.append({path: _queries(api, path) for path in LISTS})
    assert counts[0] == counts[1]
    assert max(counts[0].values()) <= 12


@pytest.mark.slow
@pytest.mark.usefixtures("plain_static")
def test_the_lists_of_the_admin(people: People, client: Client) -> None:
    sign_in_browser(client, people.operator)
    paths, counts = [f"/admin/identity/{kind}/" for kind in ("project", "user", "group", "roleassignment")], []
    for first, last in ((0, 2), (2, 12)):
        _more(people, first, last)
        counts.append({path: _queries(client, path) for path in paths})
    assert counts[0] == counts[1]
    assert max(counts[0].values()) <= 12
