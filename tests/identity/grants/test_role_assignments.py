"""``/v3/role_assignments``: as given and as they come to."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from provisioning.identity.models import RoleAssignment
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.groups import add_to_group
from provisioning.identity.services.projects import create_project
from provisioning.identity.services.roles import create_role, imply
from tests.identity.grants.conftest import V3, Acme, role_named
from tests.support.cast import Api, People, make_project, make_user
from tests.support.standing import standing

pytestmark = pytest.mark.both_databases

LIST = f"{V3}/role_assignments"
BASE = f"http://127.0.0.1:8000{V3}"


def listed(api: Api, query: str = "") -> list[dict[str, Any]]:
    answer = api.get(f"{LIST}?{query}")
    assert answer.status_code == 200, answer.content
    return list(answer.json()["role_assignments"])


@pytest.fixture
@standing
def given(people: People, acme: Acme) -> Acme:
    """Every form of assignment in acme, and one on the system."""
    member, reader = role_named("member"), role_named("reader")
    grant(member, user=acme.ed, project=acme.foundry)
    grant(reader, group=acme.staff, project=acme.foundry, inherited=True)
    grant(reader, group=acme.staff, domain=acme.domain)
    grant(member, user=people.bob.user, domain=acme.domain, inherited=True)
    grant(reader, group=acme.staff, system=True)
    return acme


def test_what_was_given_is_listed_with_its_link(people: People, given: Acme) -> None:
    RoleAssignment.objects.exclude(project=given.foundry).exclude(group=given.staff).delete()
    grant(role_named("admin"), user=people.operator.user, project=people.operator.project)
    member, reader, ed = role_named("member").id.hex, role_named("reader").id.hex, given.ed.id.hex
    foundry, staff = given.foundry.id.hex, given.staff.id.hex
    group_on_foundry = f"/projects/{foundry}/groups/{staff}"
    result = listed(Api(people.operator))
    assert result[:-1] == [
        {
            "role": {"id": member},
            "scope": {"project": {"id": foundry}},
            "user": {"id": ed},
            "links": {"assignment": f"{BASE}/projects/{foundry}/users/{ed}/roles/{member}"},
        },
        {
            "role": {"id": reader},
            "scope": {"project": {"id": foundry}, "OS-INHERIT:inherited_to": "projects"},
            "group": {"id": staff},
            "links": {"assignment": f"{BASE}/OS-INHERIT{group_on_foundry}/roles/{reader}/inherited_to_projects"},
        },
        {
            "role": {"id": reader},
            "scope": {"domain": {"id": "acme"}},
            "group": {"id": staff},
            "links": {"assignment": f"{BASE}/domains/acme/groups/{staff}/roles/{reader}"},
        },
        {
            "role": {"id": reader},
            "scope": {"system": {"all": True}},
            "group": {"id": staff},
            "links": {"assignment": f"{BASE}/system/groups/{staff}/roles/{reader}"},
        },
    ]


def test_names_stand_beside_ids_when_asked_for(people: People, given: Acme) -> None:
    smith = create_role("smith", domain=given.domain)
    grant(smith, group=given.staff, domain=given.domain)
    api, acme = Api(people.operator), {"id": "acme", "name": "Acme"}
    (one,) = listed(api, f"include_names&user.id={given.ed.id.hex}")
    assert one["role"] == {"id": role_named("member").id.hex, "name": "member"}
    assert one["user"] == {"id": given.ed.id.hex, "name": "ed", "domain": acme}
    assert one["scope"] == {"project": {"id": given.foundry.id.hex, "name": "foundry", "domain": acme}}
    (two,) = listed(api, f"include_names=True&role.id={smith.id.hex}")
    assert two["role"] == {"id": smith.id.hex, "name": "smith", "domain": acme}
    assert two["group"] == {"id": given.staff.id.hex, "name": "staff", "domain": acme}
    assert two["scope"] == {"domain": acme}
    assert "name" not in listed(api, "include_names=0")[0]["role"]


def test_filters_narrow_together(people: People, given: Acme) -> None:
    api, ed, staff, bob = Api(people.operator), given.ed.id.hex, given.staff.id.hex, people.bob.user_id.hex
    foundry, forge, reader = given.foundry.id.hex, given.forge.id.hex, role_named("reader").id.hex
    counts = {
        f"user.id={ed}": 1,
        f"group.id={staff}": 3,
        f"group.id={staff}&scope.system=all": 1,
        f"group.id={staff}&role.id={reader}": 3,
        f"user.id={ed}&role.id={reader}": 0,
        f"scope.project.id={foundry}": 2,
        f"scope.project.id={foundry}&scope.OS-INHERIT:inherited_to=projects": 1,
        f"scope.project.id={forge}": 0,
        f"scope.project.id={people.bob.project_id.hex}": 2,
        "scope.domain.id=acme": 3,
        f"scope.domain.id=acme&user.id={bob}": 1,
        "scope.system=all": 1,
        "scope.OS-INHERIT:inherited_to=projects": 2,
        "user.id=nobody": 0,
        "role.id=%00": 0,
        "scope.domain.id=%00": 0,
        "scope.domain.id=": 0,
        f"scope.project.id={'0' * 32}": 0,
    }
    result = {query: len(listed(api, query)) for query in counts}
    assert result == counts


def test_a_subtree_takes_the_projects_below_along(people: People, given: Acme) -> None:
    grant(role_named("reader"), user=given.ed, project=given.forge)
    grant(role_named("reader"), user=given.ed, project=make_project("apart", given.domain))
    api, foundry = Api(people.operator), given.foundry.id.hex
    scopes = [each["scope"]["project"]["id"] for each in listed(api, f"scope.project.id={foundry}&include_subtree")]
    assert sorted(scopes) == sorted([foundry, foundry, given.forge.id.hex])
    effective = listed(api, f"scope.project.id={foundry}&include_subtree=true&effective&user.id={given.ed.id.hex}")
    assert {each["scope"]["project"]["id"] for each in effective} == {foundry, given.forge.id.hex}


def test_filters_that_contradict_each_other_are_400(people: People) -> None:
    api = Api(people.operator)
    for query in (
        "user.id=x&group.id=y",
        "scope.project.id=x&scope.domain.id=y",
        "scope.system=all&scope.domain.id=y",
        "scope.system=some",
        "scope.OS-INHERIT:inherited_to=domains",
        "include_subtree",
        "include_subtree=true&scope.domain.id=acme",
        "effective&group.id=x",
        "effective&scope.domain.id=acme&scope.OS-INHERIT:inherited_to=projects",
        "effective=perhaps",
        "include_names=%00",
        "limit=-5",
    ):
        answer = api.get(f"{LIST}?{query}")
        assert answer.status_code == 400, query
        assert answer.json()["error"]["message"]


def test_effective_ones_are_of_users_on_what_tokens_are_for(people: People, given: Acme) -> None:
    """Groups give way to users, inheritance to the projects below, and implied roles stand beside what implies them."""
    api, ed, staff = Api(people.operator), given.ed.id.hex, given.staff.id.hex
    member, reader, foundry = role_named("member").id.hex, role_named("reader").id.hex, given.foundry.id.hex
    forge, member_link = given.forge.id.hex, f"{BASE}/groups/{staff}/users/{ed}"
    result = listed(api, f"effective&user.id={ed}")
    on_foundry = f"{BASE}/projects/{foundry}/users/{ed}/roles/{member}"
    assert sorted(result, key=str) == sorted(
        [
            {
                "role": {"id": member},
                "scope": {"project": {"id": foundry}},
                "user": {"id": ed},
                "links": {"assignment": on_foundry},
            },
            {
                "role": {"id": reader},
                "scope": {"project": {"id": foundry}},
                "user": {"id": ed},
                "links": {"assignment": on_foundry, "prior_role": f"{BASE}/roles/{member}/implies/{reader}"},
            },
            {
                "role": {"id": reader},
                "scope": {"project": {"id": forge}, "OS-INHERIT:inherited_to": "projects"},
                "user": {"id": ed},
                "links": {
                    "assignment": f"{BASE}/OS-INHERIT/projects/{foundry}/groups/{staff}/roles/{reader}/"
                    "inherited_to_projects",
                    "membership": member_link,
                },
            },
            {
                "role": {"id": reader},
                "scope": {"domain": {"id": "acme"}},
                "user": {"id": ed},
                "links": {
                    "assignment": f"{BASE}/domains/acme/groups/{staff}/roles/{reader}",
                    "membership": member_link,
                },
            },
            {
                "role": {"id": reader},
                "scope": {"system": {"all": True}},
                "user": {"id": ed},
                "links": {"assignment": f"{BASE}/system/groups/{staff}/roles/{reader}", "membership": member_link},
            },
        ],
        key=str,
    )


def test_a_domains_inheritance_reaches_all_its_projects_and_not_itself(people: People, given: Acme) -> None:
    bob, member = people.bob.user_id.hex, role_named("member").id.hex
    result = listed(Api(people.operator), f"effective&user.id={bob}&role.id={member}")
    assert {each["scope"].get("project", {}).get("id") for each in result} == {given.foundry.id.hex, given.forge.id.hex}
    link = f"{BASE}/OS-INHERIT/domains/acme/users/{bob}/roles/{member}/inherited_to_projects"
    assert {each["links"]["assignment"] for each in result} == {link}
    on_forge = listed(Api(people.operator), f"effective&scope.project.id={given.forge.id.hex}&role.id={member}")
    assert [each["user"]["id"] for each in on_forge] == [bob]
    on_domain = listed(Api(people.operator), "effective&scope.domain.id=acme")
    assert bob not in {each["user"]["id"] for each in on_domain}


def test_roles_of_domains_stand_in_no_effective_list(people: People, given: Acme) -> None:
    smith = create_role("smith", domain=given.domain)
    imply(smith, role_named("reader"))
    dora = given.dora.id.hex
    grant(smith, user=given.dora, project=given.forge)
    result = listed(
        Api(people.operator), f"effective&user.id={dora}&scope.project.id={given.forge.id.hex}&include_names"
    )
    assert [each["role"]["name"] for each in result] == ["reader"]
    assert result[0]["links"]["prior_role"].endswith(f"/roles/{smith.id.hex}/implies/{role_named('reader').id.hex}")
    assert result[0]["links"]["assignment"].endswith(f"/roles/{smith.id.hex}")


def test_a_long_list_says_that_it_was_cut(people: People, given: Acme) -> None:
    api = Api(people.operator)
    whole = api.get(LIST).json()
    assert "truncated" not in whole
    for query in ("limit=2", "limit=2&effective"):
        cut = api.get(f"{LIST}?{query}").json()
        assert len(cut["role_assignments"]) == 2
        assert cut["truncated"] is True
    assert "truncated" not in api.get(f"{LIST}?limit={len(whole['role_assignments'])}").json()


@pytest.mark.parametrize("query", ["include_names", "effective&include_names", "effective&include_names&scope"])
def test_a_longer_list_takes_no_more_queries(
    people: People, given: Acme, query: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    query = query.replace("&scope", f"&scope.project.id={given.foundry.id.hex}&include_subtree")
    for number in range(12):
        project = create_project(given.domain, f"p{number}", parent=given.foundry)
        add_to_group(given.staff, make_user(f"u{number}", {project: "member"}, domain=given.domain))
    api = Api(people.operator)
    with django_assert_max_num_queries(16):
        result = listed(api, query)
    assert len(result) > 20


def test_head_says_that_it_may_be_asked(people: People) -> None:
    api = Api(people.operator)
    answer = api.client.head(f"{LIST}?effective", headers=api.headers)
    assert (answer.status_code, answer.content) == (200, b"")
    stranger = Api(people.alice)
    assert stranger.client.head(LIST, headers=stranger.headers).status_code == 403
