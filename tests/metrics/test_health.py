"""The health check."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from provisioning.hosts import liveness
from provisioning.hosts.models import Host
from provisioning.jobs.models import WorkerBeat
from tests.agent_link.test_images import joined


def test_health_is_good_when_launching_works(db: None, client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "no workers", "web": True, "workers": 0, "hosts_up": 0}
    assert client.get("/healthz").status_code == 503
    WorkerBeat.objects.create(name="elsewhere:1:2:3.4", topics="", beat_at=timezone.now())
    host, _ = joined("h1")
    liveness.heartbeat(host.id)
    unmeasured = client.get("/healthz").json()
    assert (unmeasured["status"], unmeasured["hosts_up"]) == ("no hosts", 0)
    Host.objects.update(vcpus_total=4)
    response = client.get("/healthz")
    assert response.json() == {"status": "ok", "web": True, "workers": 1, "hosts_up": 1}
    assert response.status_code == 200


def test_a_disabled_host_does_not_count(db: None, client: Client) -> None:
    host, _ = joined("h1")
    liveness.heartbeat(host.id)
    Host.objects.update(enabled=False, vcpus_total=4)
    assert client.get("/healthz").json()["hosts_up"] == 0


def test_hosts_that_fell_silent_are_not_a_cloud_that_starts(db: None, client: Client) -> None:
    WorkerBeat.objects.create(name="elsewhere:1:2:3.4", topics="", beat_at=timezone.now())
    joined("h1")
    Host.objects.update(vcpus_total=4, last_seen_at=timezone.now() - timedelta(hours=1))
    response = client.get("/healthz")
    assert (response.status_code, response.json()["status"]) == (503, "no hosts")


def test_only_reading_is_allowed(db: None, client: Client) -> None:
    assert client.post("/healthz").status_code == 405


def test_the_hosts_are_counted_by_the_database(
    db: None, client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2) as queries:
        client.get("/healthz")
    assert all("COUNT(" in query["sql"] for query in queries.captured_queries)


def test_a_cloud_that_starts_writes_no_error(db: None, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("ERROR", logger="django.request"):
        assert client.get("/healthz").status_code == 503
    assert not caplog.records
