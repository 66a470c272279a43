"""The operators' pages of periodic work and of what the webhook has not taken."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from provisioning.jobs.models import Lease
from provisioning.jobs.queue import rows
from provisioning.jobs.registry import periodic_jobs
from provisioning.notifications.models import Delivery
from tests.support.cast import People, sign_in_browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]
LEASES, DELIVERIES = "/admin/jobs/lease/", "/admin/notifications/delivery/"


@pytest.fixture
def admin(people: People, client: Client) -> Client:
    sign_in_browser(client, people.operator)
    return client


def delivery(**columns: Any) -> Delivery:
    now = timezone.now()
    values = {"message_id": uuid.uuid4(), "subject": "one", "event_type": "instance.pause.end", "body": '{"a": 1}'}
    return Delivery.objects.create(**{**values, "created_at": now, "due_at": now, **columns})


def act(admin: Client, action: str, row: Delivery, **more: str) -> Any:
    return admin.post(DELIVERIES, {"action": action, "_selected_action": [row.pk], **more}, follow=True)


@pytest.mark.slow
def test_periodic_work_says_when_it_ran_and_what_is_overdue(admin: Client) -> None:
    now = timezone.now()
    for name in periodic_jobs:
        Lease.objects.create(name=name, holder="g", expires_at=now, last_run_at=now, last_seconds=0.125)
    Lease.objects.filter(name="events.prune").update(last_run_at=now - timedelta(days=1))
    Lease.objects.filter(name="hosts.prune").update(last_error="LookupError: gone")
    Lease.objects.filter(name="identity.flush").delete()
    Lease.objects.create(name="of.old", holder="g", expires_at=now)
    page = admin.get(LEASES).content.decode()
    assert page.count('<span class="status bad">overdue</span>') == 1
    assert page.count('<span class="status bad">failed</span>') == 1
    assert "LookupError: gone" in page
    assert "0.125 s" in page
    assert "have never run: identity.flush" in page
    assert "of.old" not in page
    assert admin.get(f"{LEASES}events.prune/change/").status_code == 200
    assert admin.post(f"{LEASES}events.prune/change/", {"holder": "x"}).status_code == 403


def test_a_delivery_that_failed_is_sent_again(admin: Client, settings: Any) -> None:
    settings.NOTIFICATION_WEBHOOK = "http://127.0.0.1:9/"
    now = timezone.now()
    row = delivery(tries=8, failed_at=now, first_failed_at=now, last_error="It answered 400.")
    delivery(subject="two")
    page = admin.get(f"{DELIVERIES}?state=failed").content.decode()
    assert "It answered 400." in page
    assert ">two<" not in page
    act(admin, "send_again", row)
    row.refresh_from_db()
    assert (row.tries, row.failed_at) == (0, None)
    assert rows.is_waiting("notifications")


def test_what_is_sent_is_shown_a_line_for_each_field(admin: Client) -> None:
    row = delivery(body='{"payload":{"display_name":"<b>web</b>"}}')
    page = admin.get(f"{DELIVERIES}{row.pk}/change/").content.decode()
    assert "\n    &quot;display_name&quot;: &quot;&lt;b&gt;web&lt;/b&gt;&quot;\n" in page
    assert "Notifications that the webhook has not accepted yet" in admin.get(DELIVERIES).content.decode()


def test_the_first_page_calls_things_as_the_guide_does(admin: Client) -> None:
    page = admin.get("/admin/").content.decode()
    assert all(
        words in page for words in ("Periodic work", "Doctor&#x27;s reports", "Deliveries", "Scheduling decisions")
    )
    assert "Rpc" not in page


def test_a_delivery_is_dropped_after_a_question(admin: Client) -> None:
    row = delivery()
    act(admin, "drop", row)
    assert Delivery.objects.exists()
    act(admin, "drop", row, confirmed="yes")
    assert not Delivery.objects.exists()


def test_members_see_neither(people: People, client: Client) -> None:
    sign_in_browser(client, people.alice)
    for path in (LEASES, DELIVERIES):
        assert client.get(path).status_code in {302, 403}
