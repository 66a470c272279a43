"""Two saves of one form at the same time: one is saved, and the other is shown its change.

On SQLite, which has one writer at a time, and on PostgreSQL.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from portal.dashboard.identity.members import MemberRoles
from portal.dashboard.network.networks.views import NetworkEdit
from portal.dashboard.settings.profile import Profile
from provisioning.common.database import retry
from provisioning.common.sqlite.base import DatabaseWrapper
from provisioning.identity.models import Role, RoleAssignment, User
from provisioning.network import services as network
from provisioning.network.models import Network
from tests.dashboard.conftest import SignedIn
from tests.dashboard.test_edited_twice import shown
from tests.support.cast import People, make_people, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases("locks")]
PATIENCE = 60


@pytest.fixture
def cast(transactional_db: None) -> People:
    return make_people()


def saved_together(
    page: type[Any], address: str, mine: Client, my: Mapping[str, Any], theirs: Client, their: Mapping[str, Any]
) -> list[Any]:
    """Submit a form while another request is between its comparison and its save. Return both answers."""
    answers: list[Any] = []
    ready = threading.Event()
    begin, save = DatabaseWrapper._start_transaction_under_autocommit, page.save

    def submit() -> None:
        try:
            answers.append(theirs.post(address, their))
        finally:
            connection.close()
            ready.set()

    other = threading.Thread(target=submit)

    def begun(self: DatabaseWrapper) -> None:
        if threading.current_thread() is other:
            ready.set()  # it waits for the writer
        begin(self)

    def between(self: Any, form: Any) -> Any:
        if other.ident is None:
            other.start()
            assert ready.wait(PATIENCE)
        return save(self, form)

    with mock.patch.object(DatabaseWrapper, begin.__name__, begun), mock.patch.object(page, "save", between):
        answers.insert(0, mine.post(address, my))
        other.join(PATIENCE)
    return answers


def test_one_of_two_values_is_saved_and_the_other_user_sees_it(cast: People, signed_in: SignedIn) -> None:
    net = network.create_network(cast.alice.project_id, "own")
    mine, theirs = signed_in(cast.alice), signed_in(cast.alice)
    address = reverse("dashboard:network_edit", args=[net.id])
    mine_sent, their_sent = (shown(mine.get(address), name=name) for name in ("mine", "theirs"))
    answers = saved_together(NetworkEdit, address, mine, mine_sent, theirs, their_sent)
    assert sorted(each.status_code for each in answers) == [303, 422]
    [refused] = [each for each in answers if each.status_code == 422]
    now = Network.objects.get(id=net.id).name
    assert refused.context["form"].errors["name"][0].startswith(f"You changed this to “{now}”")
    assert not list(refused.context["messages"])


@pytest.mark.slow
def test_roles_that_two_users_assign_do_not_add_up(cast: People, signed_in: SignedIn) -> None:
    user, project = make_user("olga", {}), cast.alice.project
    mine, theirs = signed_in(cast.operator), signed_in(cast.operator)
    address = reverse("dashboard:member_roles", args=[project.id, "user", user.id])
    reader, member = (str(Role.objects.get(name=name).id) for name in ("reader", "member"))
    mine_sent, their_sent = (shown(mine.get(address), roles=[role]) for role in (reader, member))
    answers = saved_together(MemberRoles, address, mine, mine_sent, theirs, their_sent)
    assert sorted(each.status_code for each in answers) == [303, 422]
    assert RoleAssignment.objects.filter(user=user, project=project).count() == 1


@pytest.mark.slow
def test_a_profile_is_compared_again(cast: People, signed_in: SignedIn) -> None:
    mine, theirs = signed_in(cast.alice), signed_in(cast.alice)
    address = reverse("dashboard:settings")
    mine_sent, their_sent = (shown(mine.get(address), description=text) for text in ("mine", "theirs"))
    answers = saved_together(Profile, address, mine, mine_sent, theirs, their_sent)
    assert sorted(each.status_code for each in answers) == [303, 422]
    assert User.objects.get(id=cast.alice.user_id).description in {"mine", "theirs"}


class _SerializationError(Exception):
    sqlstate = "40001"


@pytest.mark.slow
def test_a_retried_edit_counts_once(cast: People, signed_in: SignedIn, settings: Settings) -> None:
    net = network.create_network(cast.alice.project_id, "own")
    client, address = signed_in(cast.alice), reverse("dashboard:network_edit", args=[net.id])
    sent, save, failures = shown(client.get(address), name="mine"), NetworkEdit.save, [_SerializationError()]
    settings.RATE_LIMITS = {**settings.RATE_LIMITS, "writes": (1, 60)}

    def fail_once(self: Any, form: Any) -> Any:
        if failures:
            raise OperationalError from failures.pop()
        return save(self, form)

    with mock.patch.object(NetworkEdit, "save", fail_once):
        assert client.post(address, sent).status_code == 303
    assert Network.objects.get(id=net.id).name == "mine"


def aborted(*_: object) -> None:
    raise OperationalError from _SerializationError()


def test_an_edit_that_is_aborted_at_each_commit_keeps_its_input_and_has_no_editor(
    cast: People, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "PAUSE", 0.0)
    net = network.create_network(cast.alice.project_id, "own")
    client, address = signed_in(cast.alice), reverse("dashboard:network_edit", args=[net.id])
    opened = client.get(address)
    with mock.patch.object(BaseDatabaseWrapper, "commit", aborted):
        answer = client.post(address, shown(opened, name="mine", description="longer"))
    assert answer.status_code == 503
    form = answer.context["form"]
    assert form.non_field_errors()
    assert (form["name"].value(), form["description"].value()) == ("mine", "longer")
    assert not list(answer.context["messages"])
    assert Network.objects.get(id=net.id).name == "own"

    Network.objects.filter(id=net.id).update(name="mine")
    compared = client.post(address, shown(opened, name="theirs"))
    assert compared.context["form"].errors["name"][0].startswith("This was changed")
    compared = client.post(address, shown(answer, name="theirs"))
    assert compared.context["form"].errors["name"][0].startswith("This was changed")
    assert client.post(address, shown(compared)).status_code == 303
    assert Network.objects.get(id=net.id).name == "theirs"
