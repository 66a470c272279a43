"""Search over everything, as a page and in the palette; and starred resources."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.test import Client

from portal.dashboard.search.offers import FORMS, offers_for
from provisioning.compute.models import Instance
from provisioning.identity import policy
from provisioning.network import services as network
from provisioning.starred import services as stars
from provisioning.starred.models import Star
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People, Person
from tests.support.clouds import Cloud
from tests.support.standing import standing

HTMX = {"HX-Request": "true"}


@pytest.fixture
@standing
def web(alice: Person, cloud: Cloud) -> Instance:
    made = cloud.launch(alice.context, name="web-3")
    cloud.run()
    return made


def offered(person: Person, text: str) -> list[tuple[str, str, str]]:
    return [(offer.group, offer.title, offer.address) for offer in offers_for(person.context, text)]


def test_the_page_and_the_palette_show_the_same(at_alice: Client, web: Instance) -> None:
    page = at_alice.get("/search/", {"q": "web"}).content.decode()
    palette = at_alice.get("/search/", {"q": "web"}, headers=HTMX).content.decode()
    assert f'<a href="/instances/{web.id}/">' in page
    assert f'data-to="/instances/{web.id}/"' in palette
    assert "<html" not in palette
    assert "<bdi>web-3</bdi>" in page
    assert "<bdi>web-3</bdi>" in palette
    assert "Nothing matches" in at_alice.get("/search/", {"q": "zzz"}).content.decode()
    assert at_alice.get("/search/").status_code == 200


def test_actions_are_offered_as_the_menu_offers_them(alice: Person, bob: Person, web: Instance) -> None:
    stop = ("Actions", "Stop web-3", f"/instances/{web.id}/stop/")
    assert stop in offered(alice, "stop web-3")
    assert stop in offered(alice, "sto web")
    assert [group for group, _, _ in offered(alice, "start web-3")] == ["Instances"], "it runs"
    assert stop not in offered(bob, "stop web-3"), "a reader stops nothing"
    assert ("Instances", "web-3", f"/instances/{web.id}/") in offered(bob, "web-3")


@pytest.mark.slow
def test_forms_and_pages_are_offered_by_words(alice: Person, bob: Person, operator: Person, db: None) -> None:
    assert ("Create", "Create a volume", "/volumes/create/") in offered(alice, "new volume")
    assert ("Create", "Launch an instance", "/instances/launch/") in offered(alice, "laun")
    assert offered(bob, "new volume") == []
    assert ("Pages", "Security groups", "/security-groups/") in offered(alice, "securi")
    assert ("Pages", "Settings", "/settings/") in offered(alice, "password")
    assert ("Pages", "Quotas of this project", "/project/") in offered(bob, "quota")
    assert ("Pages", "Default quotas", "/quotas/") in offered(operator, "default quota")
    assert ("Pages", "Default quotas", "/quotas/") not in offered(alice, "default quota")
    assert ("Create", "Create a flavor", "/flavors/create/") in offered(operator, "new flavor")
    assert ("Create", "Create a flavor", "/flavors/create/") not in offered(alice, "new flavor")


@pytest.mark.slow
def test_every_form_has_a_page_and_a_rule(operator: Person, at_operator: Client, cloud: Cloud) -> None:
    for form in FORMS:
        assert form.rule in policy.RULES
        (address,) = {address for _, title, address in offered(operator, form.title) if title == form.title}
        assert at_operator.get(address).status_code == 200, form.title


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person) -> Client:
    return signed_in(operator)


def test_operators_reach_what_they_find(at_operator: Client, operator: Person, alice: Person, web: Instance) -> None:
    net = network.create_network(alice.project_id, "webnet")
    result = {title: address for _, title, address in offered(operator, "web")}
    assert result["web-3"] == f"/instances/{web.id}/"
    assert result["webnet"] == f"/admin/network/network/{net.id}/change/"
    for address in result.values():
        assert at_operator.get(address).status_code == 200, address
    page = at_operator.get("/search/", {"q": "webnet"}).content.decode()
    assert "wonderland" in page


@pytest.mark.slow
def test_foreign_names_never_reach_the_page(signed_in: SignedIn, charlie: Person, web: Instance) -> None:
    client = signed_in(charlie)
    for text in ("web-3", str(web.id), "stop web-3"):
        for headers in ({}, HTMX):
            answer = client.get("/search/", {"q": text}, headers=headers).content.decode()
            assert f"/instances/{web.id}/" not in answer


def test_searches_are_limited_and_hostile_texts_are_shown_as_texts(at_alice: Client, settings: Any, db: None) -> None:
    page = at_alice.get("/search/", {"q": '"><b>\u202e'}).content.decode()
    assert "<b>\u202e" not in page
    assert at_alice.get("/search/", {"q": "x" * 1000}).status_code == 200
    settings.RATE_LIMITS = {**settings.RATE_LIMITS, "searches": (1, 60)}
    at_alice.get("/search/", {"q": "a"})
    assert at_alice.get("/search/", {"q": "a"}).status_code in {302, 303}


def test_domain_administrators_search_their_domain(people: People, signed_in: SignedIn) -> None:
    answer = signed_in(people.alice).get("/search/", {"q": "charlie"})
    assert "/users/" not in answer.content.decode()


# ----- stars ----------------------------------------------------------------------------------------------------------


@pytest.mark.both_databases("sql")
def test_a_star_is_kept_for_the_user_in_the_project(
    at_alice: Client, signed_in: SignedIn, bob: Person, alice: Person, web: Instance
) -> None:
    page = f"/instances/{web.id}/"
    assert 'aria-pressed="false"' in at_alice.get(page).content.decode()
    answer = at_alice.post(f"/starred/instance/{web.id}/", {"starred": "1", "next": page})
    assert (answer.status_code, answer.headers["Location"]) == (303, page)
    for path in ("/", "/networks/"):
        assert re.search(rf'data-starred.*href="{page}"', signed_in(alice).get(path).content.decode(), re.DOTALL)
    assert 'aria-pressed="true"' in at_alice.get(page).content.decode()
    assert "data-starred" not in signed_in(bob).get("/").content.decode()
    assert "web-3" in at_alice.get("/starred/").content.decode()
    at_alice.post(f"/starred/instance/{web.id}/", {"starred": ""})
    assert not Star.objects.exists()


def test_only_visible_resources_are_starred(signed_in: SignedIn, charlie: Person, web: Instance) -> None:
    client = signed_in(charlie)
    for path in (f"instance/{web.id}", f"instance/{uuid.uuid4()}", f"spaceship/{web.id}"):
        assert client.post(f"/starred/{path}/", {"starred": "1"}).status_code == 404
    assert not Star.objects.exists()


def test_stars_are_bounded_and_outlive_their_resource(
    at_alice: Client, alice: Person, web: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stars, "MOST", 1)
    net = network.create_network(alice.project_id, "net")
    for _ in range(2):
        stars.star(alice.context, "network", net.id)
    at_alice.post(f"/starred/instance/{web.id}/", {"starred": "1"})
    assert [row.name for row in Star.objects.all()] == ["net"]
    network.delete_network(net)
    assert "net" in at_alice.get("/starred/").content.decode()
    at_alice.post(f"/starred/network/{net.id}/", {"starred": ""})
    assert not Star.objects.exists()


@pytest.mark.parametrize("kind", ["network", "router", "security_group"])
def test_pages_of_records_have_a_star(at_alice: Client, alice: Person, cloud: Cloud, kind: str) -> None:
    make = {
        "network": lambda: network.create_network(alice.project_id, "x"),
        "router": lambda: network.create_router(alice.project_id, name="x"),
        "security_group": lambda: network.create_security_group(alice.project_id, "x"),
    }
    record = make[kind]()
    assert at_alice.post(f"/starred/{kind}/{record.pk}/", {"starred": "1"}).status_code == 303
    address = f"/{kind.replace('_', '-')}s/{record.pk}/"
    page = at_alice.get(address).content.decode()
    assert f'data-thing-address="{address}"' in page
    assert 'aria-pressed="true"' in page
