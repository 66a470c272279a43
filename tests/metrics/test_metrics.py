"""``/metrics``: who may read it, what it says, and that its counters only rise."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from compute_agent.contract.messages import Tracking
from compute_agent.contract.samples import HOST_SERIES, Samples
from provisioning.common.context import RequestContext
from provisioning.common.values.tally import BOUNDS, Tally
from provisioning.compute.actions.delete import delete
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent, Total
from provisioning.compute.selectors import totals
from provisioning.compute.services.totals import fold
from provisioning.hosts.models import Host
from provisioning.jobs.models import Lease
from provisioning.jobs.queue import worker_groups
from provisioning.jobs.registry import periodic_jobs
from provisioning.measures import inbound
from provisioning.measures.resolutions import FINE
from provisioning.notifications.models import Delivery
from provisioning.volumes.models import Volume
from tests.support.cast import People, sign_in_browser
from tests.support.clouds import Cloud, context
from tests.support.standing import derived, standing

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
TOKEN = "for prometheus"
Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    return Cloud.make()


@pytest.fixture
@derived
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture(autouse=True)
def _token(settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN


def scrape(query: str = "") -> dict[str, Metric]:
    answer = Client().get(f"/metrics{query}", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    return {family.name: family for family in text_string_to_metric_families(answer.content.decode())}


def values(families: dict[str, Metric] | None = None) -> Values:
    result = scrape() if families is None else families
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in result.values()
        for sample in family.samples
    }


def of(found: Values, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


@pytest.mark.slow
def test_nobody_reads_them_by_default(client: Client, settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    assert client.get("/metrics").status_code == 401
    for given in ("Bearer", "Bearer ", "Bearer x", f"Bearer {TOKEN}"):
        assert client.get("/metrics", headers={"authorization": given}).status_code == 401


@pytest.mark.parametrize("given", ["Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer \u00e9", f"Bearer {TOKEN}x"])
def test_a_wrong_token_reads_nothing(client: Client, given: str) -> None:
    answer = client.get("/metrics", headers={"authorization": given})
    assert (answer.status_code, b"novella_" in answer.content) == (401, False)


@pytest.mark.slow
def test_operators_read_them_with_a_token_or_a_session(people: People) -> None:
    assert Client().get("/metrics", headers=people.operator.headers).status_code == 200
    browser = Client()
    sign_in_browser(browser, people.operator)
    assert browser.get("/metrics").status_code == 200
    assert Client().get("/metrics", headers=people.alice.headers).status_code == 403
    member = Client()
    sign_in_browser(member, people.alice)
    assert member.get("/metrics").status_code == 403


@pytest.mark.both_databases("sql")
def test_it_speaks_openmetrics_to_who_asks_for_it(cloud: Cloud) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "accept": "application/openmetrics-text; version=1.0.0"}
    answer = Client().get("/metrics", headers=headers)
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics.text_string_to_metric_families(answer.content.decode())}
    assert {"novella_launches", "novella_step_seconds", "novella_instances"} <= names


@pytest.mark.both_databases("sql")
def test_the_rows_of_each_kind_and_the_size_of_the_database(cloud: Cloud, alice: RequestContext) -> None:
    cloud.launch(alice)
    result = values()
    assert of(result, "novella_database_bytes") > 100_000
    kinds = {dict(labels)["kind"] for name, labels in result if name == "novella_database_rows"}
    assert kinds >= {"compute.Instance", "compute.InstanceActionEvent", "images.Image", "django_q.OrmQ"}
    if connection.vendor == "sqlite":  # PostgreSQL estimates
        assert of(result, "novella_database_rows", kind="compute.Instance") == 1


@pytest.mark.both_databases("sql")
def test_a_cloud_that_works(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", vcpus=8, memory_mb=8192, disk_gb=100)
    cloud.add_host("celsius", vcpus=4, memory_mb=2048, disk_gb=50, zone="cold")
    running = cloud.launch(alice)
    cloud.run()
    cloud.launch(context("alice"), flavor_ref="2", availability_zone="cold")
    cloud.run()
    gone = cloud.launch(context("alice"))
    delete(context("alice"), gone.id)
    cloud.run()
    cloud.launch(context("alice"))
    Instance.objects.filter(id=running.id).update(task_state="rebooting", task_deadline=timezone.now())
    worker_groups.beat("g:1", ["scheduler"])
    for status, deadline in (("extending", timezone.now()), ("deleting", timezone.now() + timedelta(hours=1))):
        Volume.objects.create(project_id=running.project_id, size_gb=1, status=status, deadline=deadline)
    result = values()
    assert of(result, "novella_launches_total", outcome="success") == 1
    assert of(result, "novella_launches_total", outcome="error") == 1
    assert of(result, "novella_launches_total", outcome="deleted") == 1
    assert of(result, "novella_launch_seconds_count", outcome="success") == 1
    assert of(result, "novella_launch_seconds_bucket", outcome="success", le="+Inf") == 1
    assert of(result, "novella_step_seconds_count", step="schedule", result="success") == 1
    assert of(result, "novella_step_seconds_count", step="schedule", result="error") == 1
    assert of(result, "novella_step_seconds_count", step="wait_for_boot", result="success") == 1
    assert of(result, "novella_queue_messages", topic="scheduler") == 1
    assert 0 <= of(result, "novella_queue_oldest_seconds", topic="scheduler") < 60
    assert of(result, "novella_workers") == 1
    assert of(result, "novella_instances", state="active") == 1
    assert of(result, "novella_instances", state="error") == 1
    assert of(result, "novella_instances", state="building") == 1
    assert of(result, "novella_moves", type="live-migration") == 0
    assert of(result, "novella_tasks_overdue") == 1
    assert of(result, "novella_record_tasks", record="volume") == 2
    assert of(result, "novella_record_tasks_overdue", record="volume") == 1
    assert of(result, "novella_record_tasks_overdue", record="image") == 0
    assert of(result, "novella_hosts", zone="nova") == of(result, "novella_agents_connected", zone="nova") == 1
    assert of(result, "novella_vcpus", zone="cold") == 4
    assert of(result, "novella_memory_bytes", zone="nova") == 8192 << 20
    assert of(result, "novella_memory_bytes_allocated", zone="nova") == 1024 << 20
    assert of(result, "novella_vcpus_allocatable", zone="nova") == 8
    assert of(result, "novella_database_bytes") > 0
    assert not [name for name, labels in result if any(key == "host" for key, _ in labels)]


def test_each_host_alone_for_who_asks(cloud: Cloud) -> None:
    cloud.add_host("kelvin", vcpus=8)
    assert of(values(scrape("?hosts=1")), "novella_host_vcpus", host="kelvin") == 8


@pytest.mark.slow
def test_connections_that_hosts_track(cloud: Cloud) -> None:
    for name, entries in (("kelvin", 10), ("nadel", 80)):
        cloud.add_host(name).measured(tracking=Tracking(entries=entries, limit=100, share=5, largest=4, port="x"))
    cloud.add_host("old").measured()
    assert of(values(), "novella_connections_fullest_ratio", zone="nova") == 0.8
    result = values(scrape("?hosts=1"))
    for name, value in (("", 10), ("_limit", 100), ("_port_limit", 5), ("_port_largest", 4)):
        assert of(result, f"novella_host_connections{name}", host="kelvin") == value
    assert not [
        labels for name, labels in result if name == "novella_host_connections" and dict(labels)["host"] == "old"
    ]
    cloud.agents["nadel"].measured()
    assert of(values(), "novella_connections_fullest_ratio", zone="nova") == 0.1


@pytest.mark.both_databases("sql")
def test_folding_changes_no_number_and_counts_nothing_twice(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    cloud.launch(context("alice"))
    cloud.run()
    before = history(values())
    assert of(before, "novella_launches_total", outcome="success") == 1
    assert fold() > 0
    assert history(values()) == before
    assert fold() == 0
    assert not InstanceActionEvent.objects.filter(counted=False, finished_at__isnull=False).exists()
    cloud.agents["kelvin"].repeat_everything()
    assert history(values()) == before


@pytest.mark.slow
def test_later_launches_are_added_to_folded_ones(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    for number in (1, 2):
        cloud.launch(alice)
        cloud.run()
        fold()
        assert of(history(values()), "novella_launches_total", outcome="success") == number


@pytest.mark.slow
def test_counters_stay_when_the_history_goes(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    cloud.launch(alice)
    cloud.run()
    fold()
    before = history(values())
    InstanceAction.objects.all().delete()
    assert history(values()) == before


@pytest.mark.both_databases("sql")
def test_what_is_folded_while_it_is_read_is_counted_once(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.add_host("kelvin")
    cloud.launch(alice)
    cloud.run()
    expected = {key: tally.count for key, tally in totals.totals().items()}
    read, folded = totals._folded, []

    def fold_in_between() -> Any:
        result = read()
        if not folded:
            folded.append(fold())
        return result

    monkeypatch.setattr(totals, "_folded", fold_in_between)
    assert {key: tally.count for key, tally in totals.totals().items()} == expected
    assert folded[0] > 0


def history(found: Values) -> Values:
    return {
        key: value
        for key, value in found.items()
        if key[0].startswith(("novella_launch", "novella_step", "novella_actions"))
    }


def test_steps_that_a_host_makes_up_are_one_label(cloud: Cloud, alice: RequestContext) -> None:
    server = cloud.launch(alice)
    action = InstanceAction.objects.get(instance=server)
    now = timezone.now()
    for number in range(5):
        InstanceActionEvent.objects.create(
            action=action, name=f"made_up_{'x' * number}", started_at=now, finished_at=now, result="Success"
        )
    result = values()
    assert of(result, "novella_step_seconds_count", step="other", result="success") == 5
    fold()
    assert Total.objects.filter(family="step").count() == 1


def test_buckets_are_cumulative_and_their_bounds_belong_to_them() -> None:
    tally = Tally()
    for seconds in (0.005, 0.0051, 1.0, 9999.0):
        tally.record(seconds)
    assert (tally.buckets[0], tally.buckets[1], tally.buckets[-1], tally.count) == (1, 1, 1, 4)
    assert tally.buckets[BOUNDS.index(1.0)] == 1


def test_periodic_work_and_notifications(db: None) -> None:
    now = timezone.now()
    ran = now - timedelta(seconds=3)
    Lease.objects.create(
        name="compute.reaper",
        holder="g",
        expires_at=now,
        last_run_at=ran,
        last_finished_at=now,
        last_seconds=0.25,
        last_error="LookupError: gone",
    )
    Delivery.objects.create(message_id=uuid.uuid4(), subject="a", event_type="x", body="{}", created_at=now, due_at=now)
    result = values()
    assert of(result, "novella_periodic_last_run_timestamp_seconds", job="compute.reaper") == pytest.approx(
        ran.timestamp()
    )
    assert of(result, "novella_periodic_last_duration_seconds", job="compute.reaper") == 0.25
    assert of(result, "novella_periodic_last_failed", job="compute.reaper") == 1
    assert of(result, "novella_periodic_overdue", job="compute.reaper") == 0
    assert of(result, "novella_periodic_overdue", job="events.prune") == 1
    assert {labels[0][1] for name, labels in result if name == "novella_periodic_overdue"} == set(periodic_jobs)
    assert of(result, "novella_notifications_waiting") == 1


@pytest.mark.slow
def test_the_cost_does_not_grow_with_the_cloud(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("h0")
    cloud.launch(alice)
    cloud.run()
    counted = []
    for number in range(2):
        with CaptureQueriesContext(connection) as queries:
            scrape()
        counted.append(len(queries))
        cloud.add_host(f"more{number}")
        for _ in range(3):
            cloud.launch(context("alice"))
        cloud.run()
    with CaptureQueriesContext(connection) as queries:
        scrape()
    assert counted == [len(queries)] * 2
    assert len(queries) < 35


@pytest.mark.parametrize(
    ("rows", "index"),
    [
        (lambda: Instance.objects.filter(deleted_at=None).values_list("vm_state").order_by("vm_state"), "by_state"),
        (lambda: totals.steps_to_count().order_by("id"), "step_to_count"),
        (lambda: totals.actions_to_count().order_by("id"), "action_to_count"),
    ],
)
def test_what_is_counted_has_an_index(cloud: Cloud, rows: Any, index: str) -> None:
    if connection.vendor == "sqlite":
        assert index in rows().explain()
    assert not Host.objects.exists()


def test_what_hosts_use(cloud: Cloud) -> None:
    cloud.add_host("kelvin")
    host, now = Host.objects.get(), time.time()
    frame = Samples(host=[None if name == "disk_read" else 2.0 for name in HOST_SERIES])
    inbound.receive(host.id, int(now) // FINE.seconds, frame, inbound.Inbox(), now)
    result = values(scrape("?hosts=1"))
    assert of(result, "novella_host_cpu_used", host="kelvin") == pytest.approx(2, rel=0.001)
    assert of(result, "novella_host_memory_used_bytes", host="kelvin") == pytest.approx(2 << 20, rel=0.001)
    assert ("novella_host_disk_read_bytes_per_second", (("host", "kelvin"),)) not in result
    assert not [name for name, _ in values() if name.startswith("novella_host_cpu")]
