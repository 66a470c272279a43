"""What is taken from a person closes the sockets that it opened, and no others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from portal.sockets import follower
from provisioning.identity.authentication.authenticate import AuthRequest, CredentialProof, authenticate
from provisioning.identity.models import Role
from provisioning.identity.selectors.lookups import role_records
from provisioning.identity.selectors.tokens import sign_ins_of
from provisioning.identity.services.application_credentials import (
    RequestPattern,
    create_application_credential,
    delete_application_credential,
)
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.groups import add_to_group, create_group, remove_from_group
from provisioning.identity.services.sign_ins import Client as Program
from provisioning.identity.services.sign_ins import end_sign_in
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.services.trusts import TrustRequest, create_trust
from provisioning.identity.services.users import revoke_all
from tests.sockets.test_browser import PAGE, browser, happen
from tests.support.cast import PASSWORD, People, Person
from tests.support.sockets import ORIGIN, Open, Socket, in_db

pytestmark = pytest.mark.usefixtures("plain_static")
COOKIE = django_settings.SESSION_COOKIE_NAME


def enter(person: Person) -> str:
    client = Client()
    client.post("/auth/login/", {"user_name": person.user.name, "password": PASSWORD})
    return f"{COOKIE}={client.cookies[COOKIE].value}"


def robot(person: Person, **options: Any) -> tuple[Any, str]:
    record, secret = create_application_credential(person.user, person.project, "robot", **options)
    proof = CredentialProof(secret, credential_id=record.id.hex)
    client = Program.of("192.0.2.1", "robot")
    request = AuthRequest(("application_credential",), "default", client, application_credential=proof)
    return record, authenticate(request).token.value


async def script(open_socket: Open, token: str) -> Socket:
    return await open_socket("/ws/v1/events", x_auth_token=token)


async def test_a_session_that_is_ended_closes_its_pages_only(open_socket: Open, people: People) -> None:
    one, other = await in_db(enter)(people.alice), await in_db(enter)(people.alice)
    ended = await open_socket(PAGE, origin=ORIGIN, cookie=one)
    kept = await open_socket(PAGE, origin=ORIGIN, cookie=other)
    await kept.json()
    sessions = await in_db(lambda: list(sign_ins_of(people.alice.user_id)))()
    await in_db(end_sign_in)(min(sessions, key=lambda each: each.created_at))
    assert await ended.closed() == follower.ENDED
    await in_db(happen)(people.alice, 3)
    assert (await kept.json())["html"] == "instances|wonderland|3"


async def test_signing_out_closes_the_pages_of_that_browser(open_socket: Open, people: People) -> None:
    cookie = await in_db(enter)(people.alice)
    socket = await open_socket(PAGE, origin=ORIGIN, cookie=cookie)
    client = Client()
    client.cookies[COOKIE] = cookie.partition("=")[2]
    await in_db(client.post)("/auth/logout/")
    assert await socket.closed() == follower.ENDED


async def test_leaving_a_group_closes_what_the_group_opened(open_socket: Open, people: People) -> None:
    def join() -> tuple[Any, Person]:
        group = create_group(people.charlie.user.domain, "visitors")
        add_to_group(group, people.charlie.user)
        role = role_records(["reader"])[0]
        grant(role, group=group, project=people.alice.project)
        return group, Person(people.charlie.user, people.alice.project)

    group, visitor = await in_db(join)()
    there, home = await browser(open_socket, visitor), await browser(open_socket, people.charlie)
    await home.json()
    await in_db(remove_from_group)(group, people.charlie.user)
    assert await there.closed() in {follower.ENDED, follower.FORBIDDEN}
    await in_db(happen)(people.charlie, 3)
    assert (await home.json())["html"] == "instances|factory|3"


async def test_deleting_an_application_credential_closes_its_sockets(open_socket: Open, people: People) -> None:
    record, token = await in_db(robot)(people.alice)
    socket = await script(open_socket, token)
    await socket.json()
    await in_db(delete_application_credential)(record)
    assert await socket.closed() == follower.ENDED


async def test_who_lets_somebody_act_closes_the_sockets_of_that(open_socket: Open, people: People) -> None:
    def handed_on() -> str:
        reader = Role.objects.get(name="reader", domain=None)
        request = TrustRequest(people.charlie.user, impersonation=False, project=people.alice.project, roles=[reader])
        trust = create_trust(people.alice.context, request)
        return issue_token(people.charlie.user, trust, ("password",)).value

    socket = await script(open_socket, await in_db(handed_on)())
    await socket.json()
    await in_db(revoke_all)(people.alice.user)
    assert await socket.closed() == follower.ENDED


async def test_access_rules_open_no_socket(open_socket: Open, people: People) -> None:
    rules = [RequestPattern("compute", "GET", "/**")]
    _, token = await in_db(lambda: robot(people.alice, access_rules=rules))()
    assert await (await script(open_socket, token)).closed() == follower.FORBIDDEN


async def test_what_is_taken_while_a_socket_opens_closes_it(
    open_socket: Open, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the token and the first event that is heard: the tailer begins behind it here."""
    token, subscribe = await in_db(lambda: people.alice.token)(), follower.Follower._subscribe

    def revoke_first(self: follower.Follower, loop: asyncio.AbstractEventLoop) -> None:
        revoke_all(people.alice.user)
        subscribe(self, loop)

    monkeypatch.setattr(follower.Follower, "_subscribe", revoke_first)
    socket = await script(open_socket, token)
    assert await socket.closed() == follower.ENDED
