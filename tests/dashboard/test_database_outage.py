"""Requests whose transaction the database aborted, or that the database did not answer."""

from __future__ import annotations

from unittest import mock

from django.db import OperationalError
from django.urls import reverse

from portal.dashboard.launch.views import Quote
from portal.dashboard.network.networks.views import NetworkDelete, NetworkList
from provisioning.common.database import outage
from provisioning.network import services as network
from provisioning.network.models import Network
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People
from tests.support.tables import each_row

NETWORK = {"net_name": "backend", "net_cidr": "10.78.0.0/24"}


class _PostgresqlError(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def error_of(sqlstate: str) -> OperationalError:
    error = OperationalError(sqlstate)
    error.__cause__ = _PostgresqlError(sqlstate)
    return error


@each_row(
    "sqlstate, status, text",
    [
        ("40001", 503, outage.CONTENDED),
        ("40P01", 503, outage.CONTENDED),
        ("57P01", 503, outage.NO_ANSWER),
        ("42601", 500, "Something broke"),
    ],
)
def test_a_page_explains_an_outage(people: People, signed_in: SignedIn, sqlstate: str, status: int, text: str) -> None:
    client = signed_in(people.alice)
    client.raise_request_exception = False
    with mock.patch.object(NetworkList, "get", side_effect=error_of(sqlstate)):
        answer = client.get(reverse("dashboard:networks"))
    assert answer.status_code == status
    assert text in answer.content.decode().replace("&#x27;", "'")


def test_an_aborted_action_returns_to_its_page_with_a_message(people: People, signed_in: SignedIn) -> None:
    net = network.create_network(people.alice.project_id, "own")
    with mock.patch.object(NetworkDelete, "do", side_effect=error_of("40001")):
        answer = signed_in(people.alice).post(reverse("dashboard:network_delete", args=[net.id]), follow=True)
    assert answer.redirect_chain == [(reverse("dashboard:network", args=[net.id]), 303)]
    assert [str(each) for each in answer.context["messages"]] == [outage.CONTENDED]
    assert Network.objects.filter(id=net.id).exists()


def test_an_aborted_request_of_a_script_does_not_leave_its_page(people: People, signed_in: SignedIn) -> None:
    client = signed_in(people.alice)
    client.raise_request_exception = False
    with mock.patch.object(Quote, "form", side_effect=error_of("57P01")):
        answer = client.post(reverse("dashboard:launch_quote"), headers={"HX-Request": "true"})
    assert answer.status_code == 503
    assert "HX-Redirect" not in answer


@each_row(
    "path, service, typed, form",
    [
        ("keys", "views.create_key_pair", {"key_new_name": "laptop"}, "new_key"),
        ("networks", "made_here.services.create_network_with_subnets", NETWORK, "new_network"),
        ("security-groups", "made_here.services.create_group_allowing", {"group_name": "web"}, "new_group"),
    ],
)
def test_a_form_within_the_wizard_keeps_its_input(
    people: People, signed_in: SignedIn, path: str, service: str, typed: dict[str, str], form: str
) -> None:
    with mock.patch(f"portal.dashboard.launch.{service}", side_effect=error_of("40001")):
        answer = signed_in(people.alice).post(f"/instances/launch/{path}/", typed, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    shown = answer.context[form]
    assert [str(each) for each in shown.non_field_errors()] == [outage.CONTENDED]
    assert {name: shown[name].value() for name in typed} == typed
    assert outage.CONTENDED in answer.content.decode()


def test_an_error_of_a_statement_is_a_bug(people: People, signed_in: SignedIn) -> None:
    net = network.create_network(people.alice.project_id, "own")
    client = signed_in(people.alice)
    client.raise_request_exception = False
    with mock.patch.object(NetworkDelete, "do", side_effect=error_of("42601")):
        assert client.post(reverse("dashboard:network_delete", args=[net.id])).status_code == 500
