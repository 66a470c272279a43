"""The operators' pages: the cloud with its faults, hosts and their maintenance, and usage."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from compute_agent.contract.messages import CONTRACT_VERSION
from portal.dashboard.frame.tray import Result
from portal.dashboard.live import PAGES, WATCHED, render
from portal.sockets.browser import OF_OPERATORS
from provisioning.batches import services as batches
from provisioning.batches.kinds import KINDS
from provisioning.batches.models import Batch, BatchItem
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.doctor.examinations import runs
from provisioning.drains import execution
from provisioning.events import selectors as events
from provisioning.events.selectors import OPERATORS, LoggedEvent
from provisioning.hosts import refused
from provisioning.hosts.models import Host, RefusedAgent
from provisioning.jobs.models import WorkerBeat
from provisioning.notifications.models import Webhook
from provisioning.notifications.services import STANDING
from provisioning.volumes.models import Backup, StoragePool
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People, Person
from tests.support.clouds import Cloud
from tests.support.pages import Document
from tests.support.tables import each_row

CLOUD, HOSTS, USAGE = "/cloud/", "/hosts/", "/usage/"


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person, people: People) -> Client:
    return signed_in(operator)


@pytest.fixture
def well(cloud: Cloud) -> Cloud:
    """A cloud with a worker and without a fault."""
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler,conductor", beat_at=timezone.now() + timedelta(hours=1))
    return cloud


def host() -> Host:
    return Host.objects.get(name="host-1")


# ----- planted faults: each is on the page and leads to its thing --------------------------------------------


def host_off(_: Cloud, __: People) -> tuple[str, str]:
    long_ago = timezone.now() - timedelta(seconds=settings.HOST_DOWN_AFTER + 60)
    Host.objects.update(last_seen_at=long_ago, connected=False)
    return "; 0 instances are on it.", reverse("dashboard:host", args=[host().id])


def host_still_answers(cloud: Cloud, people: People) -> tuple[str, str]:
    cloud.running(people.alice.context)
    Host.objects.filter(name="host-1").update(forced_down=True)
    return "It is forced down, but its agent answers", reverse("dashboard:host", args=[host().id])


def pool_full(_: Cloud, __: People) -> tuple[str, str]:
    pool = StoragePool.objects.create(name="fast", driver="nbd", total_gb=100, free_gb=9)
    return "It is 91% full: 9 of 100 GiB are free.", reverse("dashboard:pool", args=[pool.id])


def worker_gone(_: Cloud, __: People) -> tuple[str, str]:
    WorkerBeat.objects.all().delete()
    return "No worker is running", "#work"


def clock_wrong(_: Cloud, __: People) -> tuple[str, str]:
    Host.objects.update(clock_difference=-3600.0)
    return "behind the portal", reverse("dashboard:host", args=[host().id])


def webhook_dead(_: Cloud, __: People) -> tuple[str, str]:
    now = timezone.now()
    failing = {"held_until": now, "failures": 4, "last_error": "Connection refused"}
    Webhook.objects.update_or_create(name=STANDING, defaults=failing)
    return "It cannot be reached, or rejects notifications: Connection refused. Waiting: ", reverse(
        "admin:notifications_delivery_changelist"
    )


def failed_launch(cloud: Cloud, people: People) -> tuple[str, str]:
    Host.objects.update(enabled=False)
    server = cloud.launch(people.alice.context, name="unlucky")
    cloud.run()
    assert cloud.fresh(server).vm_state == VmState.ERROR
    Host.objects.update(enabled=True)
    return "No valid host", reverse("dashboard:instance", args=[server.id])


def agent_refused(_: Cloud, __: People) -> tuple[str, str]:
    refused.record("host-7", "192.0.2.7", "The join token is unknown, used, expired or for another host.")
    return "The join token is unknown", "/hosts/#refused"


def backup_failed(_: Cloud, people: People) -> tuple[str, str]:
    backup = Backup.objects.create(
        project_id=people.alice.project_id,
        volume_id=host().id,
        name="nightly",
        size_gb=1,
        status="error",
        fail_reason="The store is full.",
    )
    return "It failed: The store is full.", reverse("admin:volumes_backup_change", args=[backup.id])


FAULTS: tuple[Callable[[Cloud, People], tuple[str, str]], ...] = (
    *(host_off, host_still_answers, pool_full, worker_gone, clock_wrong),
    *(webhook_dead, failed_launch, agent_refused, backup_failed),
)


def pushed(people: People, page: str, person: Person | None = None) -> str:
    """Return what the sockets of operators, or of another person, send for a page without an event about a record."""
    context = (person or people.operator).context.without_person()
    return render(page, [LoggedEvent(0, OPERATORS, OF_OPERATORS[page.partition("/")[0]].kind, {})], context)


def rows_of(page: str) -> list[str]:
    return re.findall(r"<tr.*?</tr>", page, re.DOTALL)


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_seen_and_leads_to_its_thing(
    well: Cloud,
    people: People,
    at_operator: Client,
    plant: Callable[[Cloud, People], tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "NOTIFICATION_WEBHOOK", "https://hooks.example.org/")
    assert "All is well" in at_operator.get(CLOUD).content.decode()
    sentence, address = plant(well, people)
    part = pushed(people, "cloud")
    (row,) = [row for row in rows_of(part) if sentence in row.replace("&#x27;", "'")]
    assert f'href="{address}"' in row
    if address.startswith("#"):
        assert f'id="{address[1:]}"' in part
    elif "#" not in address:
        assert at_operator.get(address).status_code == 200
    else:
        answer = at_operator.get(address)
        assert answer.status_code == 200
        assert f'id="{address.partition("#")[2]}"' in answer.content.decode()


def test_the_pages_are_live_and_nothing_on_them_is_polled(well: Cloud, at_operator: Client) -> None:
    pool = StoragePool.objects.create(name="fast", driver="nbd")
    ids = {"cloud": (), "host": (host().id,), "pool": (pool.id,), "host_drain": (host().id,)}
    for name, args in ids.items():
        page = at_operator.get(reverse(f"dashboard:{name}", args=args)).content.decode()
        live = "/".join([name.removeprefix("host_"), *map(str, args)])
        assert f'data-live-page="{live}"' in page
        assert 'hx-trigger="every' not in page


@pytest.mark.parametrize("page", [each.live_kind for each in WATCHED])
def test_a_fault_without_an_event_is_pushed_within_half_a_minute(page: str) -> None:
    assert 0 < OF_OPERATORS[page].seconds <= 30
    assert OF_OPERATORS[page].kind in PAGES[page].kinds


def test_every_page_that_is_drawn_without_an_event_is_drawn_for_its_kind() -> None:
    assert all(name in PAGES for name in OF_OPERATORS)
    assert all(each.kind in PAGES[name].kinds for name, each in OF_OPERATORS.items() if each.seconds)


def test_a_host_gets_its_own_changes_with_its_buttons(well: Cloud, people: People, at_operator: Client) -> None:
    page = f"host/{host().id}"
    assert "End maintenance" not in pushed(people, page)
    before = events.latest_id()
    at_operator.post(f"{HOSTS}{host().id}/maintenance/", {"reason": "<b>fan"})
    (event,) = events.since([OPERATORS], before)
    html = render(page, [event], people.operator.context.without_person())
    assert 'id="host-now"' in html
    assert "&lt;b&gt;fan" in html
    assert "End maintenance" in html[html.index('id="host-actions"') :]
    other = event._replace(payload={"id": str(well.add_host("host-2").host.id)})
    assert render(page, [other], people.operator.context) == ""
    pool = StoragePool.objects.create(name="fast", driver="nbd")
    assert 'id="pool-now"' in render(f"pool/{pool.id}", [event], people.operator.context), "one of its hosts may be it"
    assert pushed(people, page, people.alice) == ""


@pytest.mark.parametrize("page", ["host", "pool", "drain"])
def test_the_page_of_a_deleted_thing_says_so(people: People, page: str) -> None:
    html = pushed(people, f"{page}/00000000-0000-4000-8000-000000000000")
    assert 'id="record-notice"' in html
    assert "This was deleted" in html


def test_findings_of_the_last_report_are_shown_without_those_that_are_checked_now(
    well: Cloud, at_operator: Client, people: People
) -> None:
    server = well.running(people.alice.context, name="odd")
    run = runs.run("clock", names=["workers"], pause=0)
    run.findings = [
        {
            "check": check,
            "severity": "error",
            "subject": subject,
            "sentence": sentence,
            "repair": None,
            "repaired": done,
        }
        for check, subject, sentence, done in (
            ("allocations", f"instance {server.id}", "Its allocation is wrong.", None),
            ("allocations", f"instance {server.id}", "This was repaired.", "Repaired."),
            ("workers", "workers", "An old finding about workers.", None),
            ("addresses", "addresses", "One address has two rows.", None),
        )
    ]
    run.save()
    page = at_operator.get(CLOUD).content.decode()
    (row,) = [row for row in rows_of(page) if "Its allocation is wrong." in row]
    assert f'href="{reverse("dashboard:instance", args=[server.id])}"' in row
    assert "<bdi>odd</bdi>" in row
    assert "This was repaired." not in page
    assert "An old finding" not in page
    (row,) = [row for row in rows_of(page) if "One address has two rows." in row]
    assert f'href="{reverse("admin:doctor_doctorrun_change", args=[run.pk])}"' in row


def test_a_failed_launch_stays_on_the_page_when_its_server_is_deleted(
    well: Cloud, people: People, at_operator: Client
) -> None:
    failed_launch(well, people)
    Instance.objects.update(vm_state=VmState.DELETED, deleted_at=timezone.now())
    page = at_operator.get(CLOUD).content.decode()
    (row,) = [row for row in rows_of(page) if "<bdi>unlucky</bdi>" in row]
    assert "deleted" in row
    assert reverse("admin:compute_instance_change", args=[Instance.objects.get().id]) in row


def test_the_room_is_that_of_the_scheduler(well: Cloud, at_operator: Client) -> None:
    page = " ".join(re.sub(r"<[^>]+>", "", at_operator.get(CLOUD).content.decode()).split())
    assert "8 \N{MULTIPLICATION SIGN} m1.small" in page
    assert "2 \N{MULTIPLICATION SIGN} m1.big" in page
    Host.objects.update(enabled=False)
    page = " ".join(re.sub(r"<[^>]+>", "", at_operator.get(CLOUD).content.decode()).split())
    assert "0 \N{MULTIPLICATION SIGN} m1.small" in page


def test_the_largest_projects_and_the_releases_of_agents(well: Cloud, people: People, at_operator: Client) -> None:
    well.running(people.alice.context)
    Host.objects.update(agent_version="0.1.9", contract_version=CONTRACT_VERSION - 1)
    page = at_operator.get(CLOUD).content.decode()
    (row,) = [row for row in rows_of(page) if reverse("dashboard:project_page", args=[people.alice.project_id]) in row]
    assert "vCPUs: 1 of 8" in row
    assert "0.1.9" in page
    assert "older than the portal" in page


def test_names_from_agents_and_users_cannot_break_the_page(well: Cloud, people: People, at_operator: Client) -> None:
    refused.record("<script>x</script>", "192.0.2.9", "<b>no</b>")
    Host.objects.update(
        uptime="load average: <b>1.00</b>, 2.00, 3.00", agent_version="<i>1</i>", warnings=["<u>hot</u>"]
    )
    page = at_operator.get(CLOUD).content.decode() + at_operator.get(f"{HOSTS}{host().id}/").content.decode()
    for text in ("<script>x", "<b>no", "<b>1.00", "<i>1<", "<u>hot"):
        assert text not in page


@pytest.mark.slow
def test_the_pages_cost_the_same_however_many_hosts_and_guests_there_are(
    well: Cloud, people: People, at_operator: Client
) -> None:
    well.running(people.alice.context)
    failed_launch(well, people)

    def costs() -> list[int]:
        values = []
        for path in (CLOUD, HOSTS, USAGE, f"{HOSTS}{host().id}/"):
            at_operator.get(path)
            with CaptureQueriesContext(connection) as queries:
                at_operator.get(path)
            values.append(len(queries))
        return values

    before = costs()
    for name in ("host-2", "host-3"):
        well.add_host(name)
    for person in (people.alice, people.charlie):
        well.running(person.context)
    failed_launch(well, people)
    after = costs()
    assert after == before
    assert min(before) > 3
    assert max(before) < 70


# ----- hosts ----------------------------------------------------------------------------------------------------------


def test_the_host_page_has_guests_load_and_clock(well: Cloud, people: People, at_operator: Client) -> None:
    server = well.running(people.alice.context, name="web")
    Host.objects.update(
        uptime=" 12:00:01 up 3 days,  4:05,  2 users,  load average: 9.50, 9.25, 8.00", clock_difference=-0.0536
    )
    page = at_operator.get(f"{HOSTS}{host().id}/").content.decode()
    (row,) = [row for row in rows_of(page) if f'id="guest-{server.id}"' in row]
    assert "1 vCPU" in row
    assert people.alice.user.name in row
    assert people.alice.project.name in row
    assert "load 9.50, 9.25, 8.00 on 8 processors" in page
    assert "3 days, 4:05" in page
    assert "<dd>correct</dd>" in page
    graphs = reverse("dashboard:host_graphs", args=[host().id, "1h"])
    assert f'hx-get="{graphs}"' in page
    assert at_operator.get(graphs, headers={"HX-Request": "true"}).status_code == 200
    listed = at_operator.get(HOSTS).content.decode()
    assert re.search(r'meter-over"[^>]*>9.50<', listed)


def test_a_maintenance_has_a_reason_a_person_and_a_time(well: Cloud, people: People, at_operator: Client) -> None:
    well.running(people.alice.context, name="web")
    path = f"{HOSTS}{host().id}/maintenance/"
    empty = at_operator.post(path, {"reason": ""})
    assert empty.status_code == 422
    assert 'id="reason_error"' in empty.content.decode()
    assert host().enabled
    long = at_operator.post(path, {"reason": "x" * 256})
    assert long.status_code == 422
    assert "x" * 256 in long.content.decode()
    assert at_operator.post(path, {"reason": "new fan"}).status_code == 303
    page = at_operator.get(f"{HOSTS}{host().id}/").content.decode()
    for text in ("In maintenance", "new fan", people.operator.user.name, "Instances that must move"):
        assert text in page
    began = host().disabled_at
    assert began is not None
    at_operator.post(path, {"reason": "new fan and disk"})
    assert (host().disabled_at, host().disabled_reason) == (began, "new fan and disk")
    assert at_operator.post(f"{path}end/").status_code == 303
    assert (host().enabled, host().disabled_at, host().disabled_by, host().disabled_reason) == (True, None, "", "")


def test_force_down_asks_with_the_focus_on_cancel(well: Cloud, at_operator: Client) -> None:
    path = f"{HOSTS}{host().id}/force-down/"
    question = at_operator.get(path, headers={"HX-Request": "true"}).content.decode()
    assert re.search(r"autofocus>\s*Cancel", question)
    at_operator.post(path)
    assert host().forced_down
    assert "Forced down" in at_operator.get(HOSTS).content.decode()
    at_operator.post(f"{path}undo/")
    assert not host().forced_down


def test_hosts_are_found_by_name_and_state(well: Cloud, at_operator: Client) -> None:
    well.add_host("other")

    def listed(query: str) -> set[str]:
        return set(re.findall(r"<bdi>(host-1|other)</bdi></a>", at_operator.get(HOSTS + query).content.decode()))

    Host.objects.filter(name="other").update(forced_down=True, enabled=False)
    assert listed("") == {"host-1", "other"}
    assert listed("?q=oth") == listed("?state=down") == listed("?state=maintenance") == {"other"}
    assert listed("?state=up") == {"host-1"}
    assert listed("?q=nobody") == set()


def test_the_list_of_hosts_is_live_with_its_filter(well: Cloud, at_operator: Client) -> None:
    page = at_operator.get(f"{HOSTS}?state=up").content.decode()
    assert 'data-live-page="hosts?state=up"' in page
    assert 'id="list-rows"' in page


def test_a_host_that_does_not_exist_is_not_found(well: Cloud, at_operator: Client, at_alice: Client) -> None:
    path = reverse("dashboard:host", args=["00000000-0000-4000-8000-000000000000"])
    assert at_operator.get(path).status_code == 404
    assert at_alice.get(path).status_code == 403


# ----- refused agents -------------------------------------------------------------------------------------------------


def test_refusals_are_counted_bounded_and_end_with_the_admission(db: None) -> None:
    for _ in range(2):
        refused.record("h", "192.0.2.1", "no")
        RefusedAgent.objects.update(refused_at=timezone.now() - timedelta(minutes=1))
    refused.record("h", "192.0.2.1", "no")
    assert RefusedAgent.objects.get().attempts == 3
    refused.record("h", "192.0.2.1", "no")  # at once: not written
    assert RefusedAgent.objects.get().attempts == 3
    for number in range(2 * refused.MOST_OF_ADDRESS):
        RefusedAgent.objects.update(refused_at=timezone.now() - timedelta(minutes=1))
        refused.record(f"name-{number}", "192.0.2.1", "no")
    assert RefusedAgent.objects.count() == refused.MOST_OF_ADDRESS
    refused.settled("h")
    assert not RefusedAgent.objects.filter(host_name="h").exists()
    RefusedAgent.objects.update(refused_at=timezone.now() - refused.SHOWN_FOR - timedelta(seconds=1))
    assert not refused.lately().exists()
    refused.prune()
    assert not RefusedAgent.objects.exists()


# ----- usage ----------------------------------------------------------------------------------------------------------


def test_usage_is_sorted_and_downloaded(well: Cloud, people: People, at_operator: Client) -> None:
    well.running(people.alice.context)
    page = at_operator.get(USAGE).content.decode()
    first = next(row for row in rows_of(page) if 'id="usage-' in row)
    assert str(people.alice.project_id) in first
    assert re.findall(r">([0-9.]+)</td>", first)[:4] == ["1", "1", "1", "2"]
    table = at_operator.get(f"{USAGE}?sort=name&format=csv")
    assert table["Content-Type"].startswith("text/csv")
    lines = b"".join(table).decode().splitlines()  # type: ignore[arg-type]  # it is streamed
    assert "ID,Project,Instances,vCPUs,Memory (GiB),Disk on hosts (GiB)" in lines[0]
    assert f"{people.alice.project_id},{people.alice.project.name},1,1,1,2,0,0" in lines
    largest = at_operator.get(f"{USAGE}?sort=memory").content.decode()
    assert str(people.alice.project_id) in [row for row in rows_of(largest) if 'id="usage-' in row][-1]


@each_row("query", ["?sort=password", "?page=999", "?sort=%00"])
def test_odd_addresses_of_the_usage_page_are_harmless(at_operator: Client, query: str) -> None:
    assert at_operator.get(USAGE + query).status_code == 200


# ----- evacuation -----------------------------------------------------------------------------------------------------


def test_the_plan_of_a_host_tells_where_its_instances_would_be(
    at_operator: Client, well: Cloud, people: People
) -> None:
    server = well.running(people.alice.context, name="<b>web</b>")
    page = at_operator.get(reverse("dashboard:host_evacuation", args=[server.host_id])).content.decode()
    assert "Stays: <bdi>" in page
    assert "&lt;b&gt;web&lt;/b&gt;" in page
    assert "The host is up" in page
    well.add_host("host-9")
    page = at_operator.get(reverse("dashboard:host_evacuation", args=[server.host_id])).content.decode()
    assert "<bdi>host-9</bdi>" in page
    assert "Evacuate 1 instance" not in page
    (row,) = [row for row in rows_of(page) if "&lt;b&gt;web" in row]
    assert people.alice.project.name in row


def test_a_host_without_instances_has_nothing_to_evacuate(at_operator: Client, well: Cloud, people: People) -> None:
    host = Host.objects.get(name="host-1")
    host_off(well, people)
    address = reverse("dashboard:host_evacuation", args=[host.id])
    panel = at_operator.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "No instance is on it." in panel
    assert f'href="{address}"' not in panel


def test_the_instances_of_a_host_that_is_down_are_evacuated(at_operator: Client, well: Cloud, people: People) -> None:
    server = well.running(people.alice.context)
    well.add_host("host-9")
    address = reverse("dashboard:host_evacuation", args=[server.host_id])
    host_off(well, people)
    Host.objects.filter(name="host-9").update(last_seen_at=timezone.now(), connected=True)
    assert "Evacuate 1 instance" in at_operator.get(address).content.decode()
    assert at_operator.post(address).status_code == 303
    well.agents = {"host-9": well.agents["host-9"]}
    well.run()
    assert (well.fresh(server).host_name, well.fresh(server).vm_state) == ("host-9", VmState.ACTIVE)


def test_an_evacuation_that_fails_leads_to_its_instances(at_operator: Client, well: Cloud, people: People) -> None:
    server = well.running(people.alice.context)
    context = people.operator.context
    lost = "00000000-0000-4000-8000-000000000000"
    batch = batches.create(context, batches.BatchRequest("servers", "evacuate", [str(server.id), lost]))
    well.run()
    page = at_operator.get(reverse("dashboard:batch", args=[batch.id])).content.decode()
    instance = reverse("dashboard:instance", args=[server.id])
    assert f'href="{instance}"' in page[page.index('id="batch-results"') :]
    assert f'href="{instance}"' in at_operator.get(USAGE).content.decode(), "the tray names it on every page"
    answer = at_operator.get(reverse("dashboard:bulk", args=["servers", "evacuate"]))
    assert (answer.status_code, answer.headers["Location"]) == (303, reverse("dashboard:instances"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_actions_on_many_has_a_list(kind: str) -> None:
    assert Result(BatchItem(error="NotFoundError"), kind).address.startswith("/")


def test_a_plan_that_is_out_of_date_evacuates_nothing(at_operator: Client, well: Cloud, people: People) -> None:
    server = well.running(people.alice.context)
    address = reverse("dashboard:host_evacuation", args=[server.host_id])
    page = at_operator.post(address, follow=True).content.decode()
    assert "host-1 is up, so nothing is evacuated." in page
    host_off(well, people)
    page = at_operator.post(address, follow=True).content.decode()
    assert "No instance of host-1 can be evacuated now." in page
    assert not Batch.objects.exists()


def test_a_member_sees_no_plan(signed_in: SignedIn, alice: Person, well: Cloud) -> None:
    server = well.running(alice.context)
    assert signed_in(alice).get(reverse("dashboard:host_evacuation", args=[server.host_id])).status_code in {403, 404}


# ----- drains ---------------------------------------------------------------------------------------------------------


def drain_page(client: Client, host_id: object) -> str:
    return client.get(reverse("dashboard:host_drain", args=[host_id])).content.decode()


def inherited_by_dialogs(page: str) -> set[str]:
    """Return what the buttons that open a dialog inherit from elements around them, by htmx's rules: with a
    ``hx-select`` or ``hx-swap`` that is not theirs, the dialog is removed in place of being filled.
    """
    buttons = [each for each in Document(page).elements if each.attributes.get("hx-target") == "#dialog"]
    assert buttons
    return {
        name
        for button in buttons
        for name in ("hx-select", "hx-swap")
        for around in list(button.up())[1:]
        if name in around.attributes and name not in around.attributes.get("hx-disinherit", "").split()
    }


def change_drain(client: Client, host_id: object, verb: str) -> str:
    """Confirm a change of a drain, and return the page that follows."""
    address = reverse("dashboard:host_drain_change", args=[host_id, verb])
    assert client.get(address).status_code == 200
    return client.post(address, follow=True).content.decode()


@pytest.mark.slow
def test_a_host_is_drained_by_its_plan(at_operator: Client, well: Cloud, people: People) -> None:
    server = well.running(people.alice.context, name="<b>web</b>")
    address = reverse("dashboard:host_drain", args=[server.host_id])
    page = drain_page(at_operator, server.host_id)
    assert "&lt;b&gt;web&lt;/b&gt;" in page
    assert "cannot be moved" in page
    page = at_operator.get(f"{address}?ways=stop").content.decode()
    assert "would be stopped" in page
    start = reverse("dashboard:host_drain_start", args=[server.host_id])
    assert 'value="stop"' in at_operator.get(f"{start}?ways=stop").content.decode()
    assert "Choose at least one." in at_operator.post(start, {"reason": "disk"}).content.decode()
    assert at_operator.post(start, {"ways": ["stop"], "reason": "disk"}).status_code == 303
    page = drain_page(at_operator, server.host_id)
    assert "Progress of the drain" in page
    assert f'data-live-page="drain/{server.host_id}"' in page
    assert inherited_by_dialogs(page) == set()
    assert "1</span> waiting" in page
    change_drain(at_operator, server.host_id, "pause")
    assert "Paused." in drain_page(at_operator, server.host_id)
    change_drain(at_operator, server.host_id, "resume")
    well.run()
    before = events.latest_id()
    execution.run_all()
    assert "drain" in {event.kind for event in events.since([OPERATORS], before)}
    page = drain_page(at_operator, server.host_id)
    assert "Last drain" in page
    assert "Last drain" in pushed(people, f"drain/{server.host_id}")
    assert well.fresh(server).vm_state == VmState.STOPPED
    assert "Move instances back" not in page, "the host is in maintenance"
    at_operator.post(reverse("dashboard:host_maintenance_end", args=[server.host_id]))
    assert "Move instances back" in drain_page(at_operator, server.host_id)
    change_drain(at_operator, server.host_id, "return")
    well.run()
    assert well.fresh(server).vm_state == VmState.ACTIVE


def test_a_cancelled_drain_leaves_the_rest(at_operator: Client, well: Cloud, people: People) -> None:
    server = well.running(people.alice.context)
    at_operator.post(reverse("dashboard:host_drain_start", args=[server.host_id]), {"ways": ["stop"]})
    change_drain(at_operator, server.host_id, "cancel")
    well.run()
    execution.run_all()
    page = drain_page(at_operator, server.host_id)
    assert "Cancelled." in page
    assert "Not begun" in page
    assert well.fresh(server).vm_state == VmState.ACTIVE
    assert at_operator.get(reverse("dashboard:host_drain_change", args=[server.host_id, "explode"])).status_code == 404
    host_page = at_operator.get(reverse("dashboard:host", args=[server.host_id])).content.decode()
    assert reverse("dashboard:host_drain", args=[server.host_id]) in host_page


def test_a_member_sees_no_drain(signed_in: SignedIn, alice: Person, well: Cloud) -> None:
    server = well.running(alice.context)
    for name in ("host_drain", "host_drain_start"):
        assert signed_in(alice).get(reverse(f"dashboard:{name}", args=[server.host_id])).status_code in {403, 404}


def test_the_first_page_answers_what_dies_with_each_host(at_operator: Client, well: Cloud, people: People) -> None:
    server = well.running(people.alice.context)
    address = reverse("dashboard:cloud_deaths")
    assert f'hx-get="{address}"' in at_operator.get(reverse("dashboard:cloud")).content.decode()
    page = at_operator.get(address).content.decode()
    assert "0 of 1" in page
    assert reverse("dashboard:host_evacuation", args=[server.host_id]) in page
    well.add_host("host-9")
    part = at_operator.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "1 of 1" in part
    assert "<html" not in part


def test_an_answer_leaves_the_panel_that_requests_it_at_most_once_a_minute(
    at_operator: Client, well: Cloud, people: People
) -> None:
    """htmx stores the time of the last request at the element."""
    well.running(people.alice.context)
    for page, args, panel in (("cloud", (), "cloud_deaths"), ("host", (host().id,), "host_evacuation")):
        address = reverse(f"dashboard:{panel}", args=args)
        whole = at_operator.get(reverse(f"dashboard:{page}", args=args)).content.decode()
        [element] = re.findall(rf'<section [^>]*hx-get="{address}"[^>]*>', whole)
        assert "throttle:60s" in element
        assert 'hx-swap="innerHTML"' in element
        part = at_operator.get(address, headers={"HX-Request": "true"}).content.decode()
        assert "-title" in part
        assert "hx-trigger" not in part, "the element that counts would be replaced"
