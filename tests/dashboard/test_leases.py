"""The lease of an instance on its page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from provisioning.compute.models import Instance
from provisioning.launches.models import InstanceLease
from provisioning.launches.services import leases
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud


@pytest.fixture
def server(cloud: Cloud, alice: Person) -> Instance:
    made = cloud.running(alice.context, name="web")
    leases.set_lease(alice.context, made.id, 7)
    return made


def test_every_tab_tells_when_it_is_deleted(at_alice: Client, server: Instance) -> None:
    for tab in ("", "settings/"):
        page = at_alice.get(f"/instances/{server.id}/{tab}")
        assert page.context["lease"].days == 7
        assert f"/instances/{server.id}/lease/extend/" in page.content.decode()


def test_one_click_extends_it(at_alice: Client, server: Instance) -> None:
    InstanceLease.objects.update(ends_at=timezone.now() + timedelta(hours=1), notified_at=timezone.now())
    answer = at_alice.post(f"/instances/{server.id}/lease/extend/")
    assert answer["Location"] == f"/instances/{server.id}/"
    lease = InstanceLease.objects.get()
    assert lease.ends_at > timezone.now() + timedelta(days=6)
    assert lease.notified_at is None


def test_it_is_changed_and_removed_in_a_form(at_alice: Client, server: Instance) -> None:
    path = f"/instances/{server.id}/lease/"
    assert at_alice.get(path).context["form"]["lease_days"].value() == "7"
    at_alice.post(path, {"lease_days": "3"})
    assert InstanceLease.objects.get().days == 3
    assert at_alice.post(path, {"lease_days": "400"}).status_code == 422
    at_alice.post(path, {"lease_days": ""})
    assert not InstanceLease.objects.exists()


def test_a_reader_sees_it_and_cannot_change_it(signed_in: SignedIn, bob: Person, server: Instance) -> None:
    at_bob = signed_in(bob)
    page = at_bob.get(f"/instances/{server.id}/")
    assert b'data-testid="lease"' in page.content
    assert b'data-testid="extend"' not in page.content
    assert at_bob.post(f"/instances/{server.id}/lease/extend/").status_code == 403
