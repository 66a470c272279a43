"""The buttons and the window of a remote console."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client

from provisioning.compute.models import ConsoleToken, Instance
from provisioning.compute.services.remote_consoles import use_token
from tests.support.cast import PASSWORD, People, Person
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.usefixtures("plain_static")


def enter(person: Person) -> Client:
    client = Client()
    client.post("/auth/login/", {"user_name": person.user.name, "password": PASSWORD})
    return client


@pytest.fixture
@standing
def server(people: People) -> Instance:
    cloud = Cloud.make()
    cloud.add_host("h1")
    launched = cloud.launch(people.alice.context, name="white-rabbit")
    cloud.run()
    return cloud.fresh(launched)


@pytest.mark.slow
def test_a_button_leads_to_a_window_that_opens_once(people: People, server: Instance) -> None:
    alice = enter(people.alice)
    assert f"/instances/{server.id}/console/vnc/" in alice.get(f"/instances/{server.id}/").content.decode()
    answer = alice.post(f"/instances/{server.id}/console/vnc/")
    assert answer.status_code == 303
    window = alice.get(answer.url)
    text = window.content.decode()
    assert window.status_code == 200
    assert "white-rabbit" in text
    assert 'data-testid="console-reconnect"' in text
    assert window.headers["Cache-Control"] == "no-store"
    assert "<script>" not in text
    assert ConsoleToken.objects.get().used_at is None
    stranger = Client().get(answer.url)
    assert stranger.status_code == 200
    assert 'data-testid="console-reconnect"' not in stranger.content.decode()
    use_token(answer.url.rpartition("%3D")[2])
    used = alice.get(answer.url)
    assert used.status_code == 404
    assert "data-socket" not in used.content.decode()
    assert alice.get(answer.url.replace("/vnc", "/serial")).status_code == 404


def test_a_window_of_one_protocol_opens_no_other(people: People, server: Instance) -> None:
    alice = enter(people.alice)
    url = alice.post(f"/instances/{server.id}/console/serial/").url
    assert alice.get(url).status_code == 200
    assert alice.get(url.replace("/console/serial", "/console/vnc")).status_code == 404


@pytest.mark.slow
def test_who_may_not_gets_none(people: People, server: Instance) -> None:
    bob, charlie = enter(people.bob), enter(people.charlie)
    assert "/console/vnc/" not in bob.get(f"/instances/{server.id}/").content.decode()
    assert bob.post(f"/instances/{server.id}/console/vnc/").status_code == 403
    assert charlie.post(f"/instances/{server.id}/console/vnc/").status_code == 404
    assert "white-rabbit" not in charlie.get(f"/console/vnc?instance={server.id}").content.decode()
    assert enter(people.alice).post(f"/instances/{server.id}/console/spice/").status_code == 404
    assert not ConsoleToken.objects.exists()


@each_row("query", ["path=%00", "path=ws/console%3Ftoken%3D%00", "instance=%00", f"instance={uuid.UUID(int=1)}"])
def test_addresses_that_are_none(people: People, query: str) -> None:
    assert enter(people.alice).get(f"/console/vnc?{query}").status_code in {200, 404}
