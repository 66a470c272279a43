"""The way to the webhook: signed, in order, at least once; a dead one holds up nothing and fills nothing."""

from __future__ import annotations

import hashlib
import hmac
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.common.context import RequestContext
from provisioning.compute.actions.power import Stop
from provisioning.jobs.queue import rows
from provisioning.notifications import delivery, services
from provisioning.notifications.jobs import call_sender
from provisioning.notifications.messages import Notification, versioned
from provisioning.notifications.models import Delivery, Webhook
from provisioning.notifications.selectors import delivery_status
from tests.jobs.conftest import eventually, kill_group
from tests.notifications.conftest import Received, Receiver, notices, types
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed waits for ``later``, also on a machine that takes seconds for a test."""
    pause_after = delivery.pause_after
    monkeypatch.setattr(delivery, "pause_after", lambda tries: 1000 * pause_after(tries))


def tell(event: str = "instance.test.start", subject: str = "one", **data: Any) -> str:
    """Send a notification of our own making; returns its type."""
    services.notify(
        [Notification(event, "nova-compute:kelvin", versioned("Test", "1.0", {**data, "subject": subject}), subject)]
    )
    return event


def told_in_order(receiver: Receiver) -> dict[str, list[int]]:
    """What came of each subject, by the numbers that ``tell`` was given."""
    result: dict[str, list[int]] = {}
    for each in receiver.came:
        data = each.message["payload"]["nova_object.data"]
        result.setdefault(data["subject"], []).append(data["number"])
    return result


def later() -> None:
    """Let the time pass that everything waits for."""
    Delivery.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    Webhook.objects.update(paused_until=None)


def rounds(many: int) -> None:
    for _ in range(many):
        later()
        delivery.deliver()


@pytest.mark.slow
def test_a_launch_reaches_the_webhook_as_it_stands_in_the_log(
    cloud: Cloud, alice: RequestContext, webhook: Receiver
) -> None:
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    drain()
    assert [each.message for each in webhook.came if "instance." in each.message["event_type"]] == notices()
    assert sorted(webhook.types) == ["instance.create.end", "instance.create.start", "service.create"]
    assert not Delivery.objects.exists()
    assert delivery_status().delivered == 3
    assert server.id


def test_the_signature_is_over_the_timestamp_and_the_body(webhook: Receiver) -> None:
    event = tell(name="Zoë")
    delivery.deliver()
    (came,) = webhook.came
    assert came.headers["Content-Type"] == "application/json"
    assert came.headers["X-Novella-Event"] == event
    assert came.headers["X-Novella-Message-Id"] == came.message["message_id"]
    stamp = came.headers["X-Novella-Timestamp"]
    assert abs(int(stamp) - time.time()) < 60
    expected = hmac.new(b"between us", stamp.encode() + b"." + came.body, hashlib.sha256).hexdigest()
    assert came.headers["X-Novella-Signature"] == f"sha256={expected}"


def test_without_a_secret_nothing_is_signed(webhook: Receiver, settings: Any) -> None:
    settings.NOTIFICATION_WEBHOOK_SECRET = ""
    tell()
    delivery.deliver()
    assert "X-Novella-Signature" not in webhook.came[0].headers


def test_without_a_webhook_nothing_is_kept(settings: Any) -> None:
    tell()
    assert not Delivery.objects.exists()
    assert not rows.is_waiting("notifications")
    delivery.deliver()


def test_the_order_of_each_subject_is_kept_while_others_go_on(webhook: Receiver) -> None:
    for number in range(6):
        for subject in ("a", "b", "c"):
            tell(subject=subject, number=number)
    refused = {"b": 2}

    def answer(came: Received) -> int:
        data = came.message["payload"]["nova_object.data"]
        if data["subject"] == "b" and data["number"] == 2 and refused["b"]:
            refused["b"] -= 1
            return 500
        return 204

    webhook.answer = answer
    delivery.deliver()
    assert told_in_order(webhook) == {"a": [*range(6)], "c": [*range(6)], "b": [0, 1, 2]}
    rounds(2)
    assert told_in_order(webhook)["b"] == [0, 1, 2, 2, 2, 3, 4, 5]
    assert not Delivery.objects.exists()


def test_a_try_again_is_the_same_message(webhook: Receiver) -> None:
    tell()
    answers = iter([503, 429, 200])
    webhook.answer = lambda _: next(answers)
    rounds(3)
    assert len(webhook.came) == 3
    assert len({each.body for each in webhook.came}) == 1
    assert len({each.headers["X-Novella-Message-Id"] for each in webhook.came}) == 1


def test_pauses_grow(webhook: Receiver) -> None:
    tell()
    webhook.answer = lambda _: 500
    pauses = []
    for _ in range(5):
        later()
        before = timezone.now()
        delivery.deliver()
        pauses.append(round((Delivery.objects.get().due_at - before).total_seconds(), -3))
    assert pauses == [1000, 2000, 4000, 8000, 16_000]
    assert delivery.pause_after(50) == timedelta(seconds=300_000)
    row = Delivery.objects.get()
    assert (row.tries, row.last_error, row.failed_at) == (5, "It answered 500.", None)
    assert len(webhook.came) == 5
    delivery.deliver()
    assert len(webhook.came) == 5


def test_redirects_are_not_followed(webhook: Receiver) -> None:
    tell()
    webhook.answer = lambda _: 302
    delivery.deliver()
    assert len(webhook.came) == 1
    assert Delivery.objects.get().last_error == "It answered 302: redirects are not followed."


def test_a_dead_webhook_is_asked_with_one_notification_now_and_then(webhook: Receiver, settings: Any) -> None:
    for number in range(20):
        tell(subject=f"s{number}")
    webhook.answer = lambda _: 503
    delivery.deliver()
    first = len(webhook.came)
    assert first <= delivery.AT_ONCE
    paused = Webhook.objects.get()
    assert paused.paused_until is not None
    delivery.deliver()
    assert len(webhook.came) == first
    Webhook.objects.update(paused_until=None)
    delivery.deliver()
    assert len(webhook.came) == first + 1
    again = Webhook.objects.get()
    assert again.paused_until is not None
    assert again.failures == paused.failures + 1
    webhook.answer = lambda _: 204
    rounds(1)
    assert not Delivery.objects.exists()
    assert Webhook.objects.get().failures == 0


def test_nobody_listens(settings: Any) -> None:
    settings.NOTIFICATION_WEBHOOK = "http://127.0.0.1:9/"
    tell()
    delivery.deliver()
    assert Delivery.objects.get().last_error.startswith("No answer:")


@pytest.mark.slow
def test_one_that_is_refused_for_good_is_given_up_and_can_be_sent_again(webhook: Receiver) -> None:
    tell("instance.bad.start", subject="bad")
    tell("instance.bad.end", subject="bad")
    webhook.answer = lambda came: 400 if came.message["event_type"] == "instance.bad.start" else 204
    for number in range(delivery.MOST_TRIES):
        tell("instance.good.start", subject=f"good{number}")
        rounds(2)
    bad = Delivery.objects.get()
    assert bad.event_type == "instance.bad.start"
    assert bad.failed_at is not None
    assert bad.tries == delivery.MOST_TRIES
    assert webhook.types.count("instance.good.start") == delivery.MOST_TRIES
    assert webhook.types.count("instance.bad.end") == 1
    assert (delivery_status().waiting, delivery_status().failed, delivery_status().given_up) == (0, 1, 1)
    webhook.answer = lambda _: 204
    assert services.send_again([bad.pk]) == 1
    assert drain() == 1
    assert webhook.types[-1] == "instance.bad.start"
    assert delivery_status().failed == 0


def test_while_all_fails_none_is_given_up(webhook: Receiver) -> None:
    tell()
    webhook.answer = lambda _: 404
    rounds(delivery.MOST_TRIES + 3)
    assert Delivery.objects.get().failed_at is None


def test_what_is_not_taken_in_time_goes(webhook: Receiver, settings: Any) -> None:
    settings.NOTIFICATION_RETENTION = 3600
    tell(subject="old")
    Webhook.objects.create(name=services.STANDING, held_until=timezone.now())
    Delivery.objects.update(created_at=timezone.now() - timedelta(seconds=3601))
    tell(subject="new")
    assert services.prune() == 1
    assert Delivery.objects.get().subject == "new"
    assert delivery_status().dropped == 1


def test_one_sender_at_a_time(webhook: Receiver) -> None:
    tell()
    now = timezone.now()
    Webhook.objects.create(name=services.STANDING, holder="elsewhere/1.1/x", held_until=now + timedelta(seconds=30))
    delivery.deliver()
    assert webhook.came == []
    assert delivery.is_held()
    Webhook.objects.update(held_until=now)
    delivery.deliver()
    assert len(webhook.came) == 1


def test_a_sender_that_lost_its_hold_notes_nothing(webhook: Receiver) -> None:
    tell()
    row = Delivery.objects.get()
    Webhook.objects.create(name=services.STANDING, holder="another", held_until=timezone.now() + timedelta(seconds=30))
    assert delivery._note("mine", [row], [""]) is False
    assert Delivery.objects.filter(pk=row.pk).exists()


def test_the_clock_calls_a_sender_for_what_was_left(webhook: Receiver) -> None:
    tell()
    OrmQ.objects.all().delete()
    assert not rows.is_waiting("notifications")
    call_sender()
    assert drain() == 1
    assert len(webhook.came) == 1
    call_sender()
    assert not rows.is_waiting("notifications")


@pytest.mark.slow
def test_a_stop_is_reported_in_order_to_the_webhook(cloud: Cloud, alice: RequestContext, webhook: Receiver) -> None:
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    Stop.begin(context("alice"), server.id)
    cloud.run()
    drain()
    assert [name for name in webhook.types if name.startswith("instance.")] == types()


@pytest.fixture
def group(transactional_db: None, webhook: Receiver) -> Iterator[Any]:
    """Starts worker groups that send to the webhook."""
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "NOVELLA_ROLE": "worker",
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "NOVELLA_NOTIFICATION_WEBHOOK": webhook.url,
            "NOVELLA_NOTIFICATION_WEBHOOK_TIMEOUT": "60",
        }
        command = [sys.executable, "-m", "tests.notifications.worker", str(connection.settings_dict["NAME"])]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait(300)


@pytest.mark.deep  # the queue gives back the job of any killed worker
def test_a_worker_that_is_killed_while_it_sends_loses_nothing(group: Any, webhook: Receiver) -> None:
    release = threading.Event()

    def answer(_: Received) -> int:
        release.wait(300)
        return 204

    webhook.answer = answer
    subject = str(uuid.uuid4())
    tell("instance.test.start", subject=subject)
    tell("instance.test.end", subject=subject)
    first = group()
    eventually(lambda: webhook.came, "the first try")
    kill_group(first)
    release.set()
    assert Delivery.objects.count() == 2
    group()
    eventually(lambda: not Delivery.objects.exists(), "both are taken")
    assert webhook.types == ["instance.test.start", "instance.test.start", "instance.test.end"]
    assert webhook.came[0].body == webhook.came[1].body
