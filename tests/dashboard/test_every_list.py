"""The properties of every list of the dashboard: search, order, filters, pages, CSV, names, queries, other projects."""

from __future__ import annotations

import csv
import io
import re
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from portal.dashboard.lists import export, find, selection
from portal.dashboard.lists.declaration import RecordList
from portal.dashboard.lists.list_query import ListQuery
from portal.dashboard.lists.live import render
from portal.dashboard.lists.views import ListPage
from provisioning.batches.models import Batch
from provisioning.common.context import RequestContext
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Flavor, KeyPair
from provisioning.compute.records.migration_records import MIGRATION, open_migration
from provisioning.compute.services.server_groups import create_server_group
from provisioning.identity.models import SignIn
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.domains import create_domain
from provisioning.identity.services.ec2 import create_ec2_credential
from provisioning.identity.services.groups import create_group
from provisioning.identity.services.projects import create_project
from provisioning.identity.services.roles import create_role
from provisioning.images import services as images
from provisioning.launches.plans.plan import LaunchPlan
from provisioning.launches.services.snippets import create_snippet
from provisioning.launches.services.templates import Modes, create_template
from provisioning.network import services as network
from provisioning.network.models import Network
from provisioning.volumes.models import Backup, StoragePool
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, CreateSnapshot, SnapshotRequest, messages
from tests.dashboard.conftest import SignedIn
from tests.dashboard.test_live import every_page
from tests.dashboard.test_names import mixed
from tests.support.cast import People, Person, make_user
from tests.support.clouds import Cloud
from tests.support.hostile import MARKUP, TURNED, turn_texts
from tests.support.landing import one_in
from tests.support.pages import Document
from tests.support.standing import standing

HOSTILE = "<script>alert(1)</script>&\"'\N{RIGHT-TO-LEFT OVERRIDE}=1+1"
LISTS: dict[str, RecordList[Any]] = {
    page.records.key: page.records for page in every_page(ListPage) if hasattr(page, "records")
}
AGE = re.compile(r'(?<=data-format="age">)[^<]*')
"""Ages, which may be another minute's in the next answer."""
pytestmark = pytest.mark.slow


def query_of(the_list: RecordList[Any], context: RequestContext, **query: str) -> ListQuery:
    return ListQuery.of(the_list, context, QueryDict(urlencode(query)))


def ids(the_list: RecordList[Any], context: RequestContext, **query: str) -> list[Any]:
    return find.all_ids(context, the_list, query_of(the_list, context, **query), 1000)


@pytest.fixture
@standing
def outside(operator: Person) -> Network:
    made = network.create_network(operator.project_id, "outside", external=True)
    network.create_subnet(made, "203.0.113.0/24", enable_dhcp=False)
    return made


@pytest.fixture
@standing
def full(people: People, cloud: Cloud, outside: Network) -> None:
    """Three records of each kind in alice's project, one of them hostile, and one in charlie's."""
    cloud.agents["host-1"].serve()
    for person, names in ((people.alice, ("a", "B", HOSTILE)), (people.charlie, ("foreign",))):
        for number, name in enumerate(names):
            add_one(person, cloud, outside, name, number)
    cloud.run()


def add_one(person: Person, cloud: Cloud, outside: Network, name: str, number: int) -> None:
    """Create one record for each list."""
    own = person.project_id
    cloud.add_host(f"host-{person.user.name}-{number}")
    net = network.create_network(own, name, description=name)
    subnet = network.create_subnet(net, f"10.{100 + number}.0.0/24")
    network.create_connected_router(own, [subnet], name=name, gateway=network.Gateway(outside))
    network.create_floating_ip(own, outside, description=name)
    network.allow_ingress(network.create_security_group(own, name, description=name), "tcp", 22)
    server = cloud.launch(person.context, name=name, networks=(NetworkRequest(network_id=str(net.id)),))
    open_migration(person.context, server, MIGRATION, server.flavor, status="confirmed")
    volume = Create.begin(person.context, VolumeRequest(size_gb=1, name=name))
    cloud.run()
    CreateSnapshot.begin(person.context, volume.id, SnapshotRequest(name=name))
    messages.of_volume(volume, messages.EXTEND, name)
    StoragePool.objects.create(name=name, driver="nbd", total_gb=100, free_gb=50 + number)
    Backup.objects.create(project_id=own, volume_id=volume.id, name=name, size_gb=1, status="available")
    images.create(person.context, name=name, disk_format="raw", container_format="bare")
    KeyPair.objects.create(
        user_id=person.user_id, name=name.replace("/", "-"), public_key=f"ssh-ed25519 {name}", fingerprint="a:b"
    )
    Flavor.objects.create(
        flavorid=f"{person.user.name}-{number}", name=f"{name}{number}", vcpus=1, memory_mb=1, root_gb=1
    )
    create_application_credential(person.user, person.project, name=name, caller=person.context)
    create_ec2_credential(person.user, person.project, caller=person.context)
    times = {"last_used_at": timezone.now(), "expires_at": timezone.now() + timedelta(days=1)}
    SignIn.objects.create(user=person.user, client=uuid.uuid4().hex, program=name, **times)
    plan = LaunchPlan(name=name, image="", flavor="1")
    create_template(person.context, name, f"{person.user.name}-{number}", plan, Modes())
    create_snippet(person.context, name=f"{name}{number}"[:64], description=name, text="#cloud-config")
    create_server_group(person.context, name, "affinity")
    now = timezone.now()
    Batch.objects.create(
        user_id=person.user_id,
        project_id=own,
        kind="instances",
        action="stop",
        total=1,
        done=1,
        moved_at=now,
        finished_at=now,
        dismissed_at=now,
    )
    domain = create_domain(f"{name}{number}", description=name)
    create_role(f"{name}{number}", description=name)
    create_group(domain, name, description=name)
    create_project(domain, name, description=name)
    make_user(f"{name}{number}", domain=domain)


SOME = one_in(4, "the_list", [LISTS[key] for key in sorted(LISTS)])
"""For what all lists have of the same code; the others are deep."""


@pytest.fixture(params=sorted(LISTS))
def the_list(request: pytest.FixtureRequest) -> RecordList[Any]:
    return LISTS[request.param]


def reader_of(the_list: RecordList[Any], people: People) -> Person:
    """Return a user who may see the list."""
    return (
        people.alice if the_list.kinds - {"host", "migration"} or the_list.key in OF_USERS | OF_ALL else people.operator
    )


@pytest.fixture
def person(people: People, the_list: RecordList[Any]) -> Person:
    return reader_of(the_list, people)


RESERVED = {"q", "sort", "page", "size", "column", "density", "keep", "format", "show", "id", "selection", "next"}
"""Names in the addresses of lists that are not filters."""
OF_USERS = frozenset(
    {
        *("key_pairs", "application_credentials", "ec2_credentials", "launch_templates", "snippets", "server_groups"),
        "sessions",
    }
)
"""Lists of users' own records, and of projects' records without events."""
ENCRYPTED = frozenset({"ec2_credentials"})
"""Lists of records that are found by their whole name only."""
NAMED_BY_NOVELLA = frozenset(
    {"batches", "ec2_credentials", "floating_ips", "roles", "security_groups", "volume_failures"}
)
"""Lists with records that no user has named, such as the default security group."""
OF_SIMPLE_NAMES = frozenset({"key_pairs"})
"""Lists of records whose names have only letters, digits and a few signs."""
OF_ALL = frozenset({"flavors"})
"""Lists of what all projects see."""


@pytest.fixture
def client(signed_in: SignedIn, person: Person) -> Client:
    return signed_in(person)


def shown(answer: Any) -> list[str]:
    return re.findall(r'<tr id="([^"]+)"', answer.content.decode())


def test_a_search_finds_a_part_and_a_whole_id(full: None, the_list: RecordList[Any], person: Person) -> None:
    every = ids(the_list, person.context)
    assert len(every) >= 3
    for record in find.records_of(person.context, the_list, ListQuery(), every):
        name = the_list.named(record)
        part = name if the_list.key in ENCRYPTED else name[1:-1] or name
        assert record.pk in ids(the_list, person.context, q=part), name
        if isinstance(record.pk, uuid.UUID):
            assert record.pk in ids(the_list, person.context, q=str(record.pk))
    assert ids(the_list, person.context, q="no such record") == []


def test_each_order_has_every_row_once_and_both_directions_are_opposite(
    full: None, the_list: RecordList[Any], person: Person
) -> None:
    every = set(ids(the_list, person.context))
    for column in the_list.columns_for(person.context):
        if column.sort is None:
            continue
        up, down = (ids(the_list, person.context, sort=f"{sign}{column.key}") for sign in ("", "-"))
        assert len(up) == len(every) == len(down), column.key
        assert set(up) == every == set(down), column.key
        assert ids(the_list, person.context, sort=column.key) == up, "the order is stable"


def test_each_filter_narrows_and_can_be_removed(
    full: None, the_list: RecordList[Any], person: Person, client: Client
) -> None:
    every = set(ids(the_list, person.context))
    assert not {each.key for each in the_list.filters} & RESERVED
    dialog = client.get(f"{the_list.address}?show=filters").content.decode()
    for each in the_list.filters_for(person.context):
        assert f'name="{each.key}"' in dialog
        choices = [*each.choices(person.context)]
        labels = [label for _, label in choices]
        assert len(labels) == len(set(labels)), "two choices look the same"
        for value, _ in choices:
            found = ids(the_list, person.context, **{each.key: value})
            assert len(found) == len(set(found)), "a filter repeats no row"
            assert set(found) <= every or each.condition is None, (each.key, value)
        for value, label in choices[:1]:
            page = client.get(the_list.address, {each.key: value}).content.decode()
            assert f"Remove {each.label}: " in page
            assert str(label)[:1] in page
        assert ids(the_list, person.context, **{each.key: "nonsense'\""}) in ([], ids(the_list, person.context))


@SOME
def test_the_pages_have_each_row_once_forth_and_back(
    full: None, the_list: RecordList[Any], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shown(client.get(the_list.address))
    monkeypatch.setattr("portal.dashboard.lists.list_query.SIZE", 2)
    for rel, address in (("next", the_list.address), ("prev", f"{the_list.address}?page=9999")):
        seen: list[list[str]] = []
        while address:
            answer = client.get(address)
            seen.append(shown(answer))
            links = re.findall(rf'rel="{rel}" href="([^"]*)"', answer.content.decode())
            address = f"{the_list.address}{links[0]}".replace("&amp;", "&") if links else ""
        pages = seen if rel == "next" else seen[::-1]
        assert [row for page in pages for row in page] == whole
        assert len(pages) == -(-len(whole) // 2)


@SOME
def test_a_csv_has_the_rows_of_the_list_and_no_formula(full: None, the_list: RecordList[Any], client: Client) -> None:
    answer = client.get(f"{the_list.address}?format=csv")
    assert answer["Content-Type"].startswith("text/csv")
    assert "attachment" in answer["Content-Disposition"]
    text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    heads, *rows = csv.reader(io.StringIO(text))
    page = client.get(the_list.address)
    prefix = the_list.row_id or the_list.key
    assert [f"{prefix}-{row[0]}" for row in rows] == shown(page)
    assert heads[0] == "ID"
    assert all(len(row) == len(heads) for row in rows)
    assert not [value for row in rows for value in row if value.startswith(export.FORMULA)]


@SOME
def test_hostile_names_are_texts(full: None, the_list: RecordList[Any], client: Client) -> None:
    page = client.get(the_list.address).content.decode()
    assert "<script>alert" not in page
    assert client.get(the_list.address, {"q": HOSTILE, "sort": HOSTILE, "page": HOSTILE}).status_code == 200
    assert "<script>alert" not in client.get(the_list.address, {"q": HOSTILE}).content.decode()


def test_long_names_that_turn_and_have_emoji_are_shown_found_and_exported(
    full: None, people: People, signed_in: SignedIn
) -> None:
    turn_texts()
    for key, the_list in LISTS.items():
        if key in OF_SIMPLE_NAMES:
            continue
        person = reader_of(the_list, people)
        client = signed_in(person)
        page = client.get(the_list.address).content.decode()
        assert not mixed(Document(page)), key
        assert MARKUP not in page, key
        text = b"".join(client.get(f"{the_list.address}?format=csv").streaming_content)  # type: ignore[attr-defined]
        exported = {cell for row in csv.reader(io.StringIO(text.decode("utf-8-sig"))) for cell in row}
        for record in find.records_of(person.context, the_list, ListQuery(), ids(the_list, person.context)):
            name = the_list.named(record)
            if TURNED not in name:
                assert key in NAMED_BY_NOVELLA
                continue
            assert escape(name) in page, key
            assert record.pk in ids(the_list, person.context, q=name), key
            assert name in exported, key


def test_longer_lists_need_no_more_queries(
    full: None, people: People, signed_in: SignedIn, cloud: Cloud, outside: Network
) -> None:
    def cost(the_list: RecordList[Any]) -> tuple[int, list[str]]:
        client = signed_in(reader_of(the_list, people))
        client.get(the_list.address)
        with CaptureQueriesContext(connection) as captured:
            rows = shown(client.get(the_list.address))
        return len(rows), [query["sql"] for query in captured.captured_queries]

    before = {key: cost(the_list) for key, the_list in LISTS.items()}
    for number in range(3):
        add_one(people.alice, cloud, outside, f"more-{number}", 50 + number)
    cloud.run()
    for key, the_list in LISTS.items():
        (few, queries), (many, more) = before[key], cost(the_list)
        assert many > few, key
        assert len(more) <= len(queries), (key, more)


def test_records_of_others_are_never_listed_nor_selected(
    full: None, the_list: RecordList[Any], client: Client, person: Person, people: People
) -> None:
    if person is people.operator or the_list.key in OF_ALL:
        return
    assert ">foreign<" not in client.get(the_list.address).content.decode()
    foreign = set(ids(the_list, people.charlie.context)) - set(ids(the_list, person.context))
    assert foreign
    request = client.get(the_list.address).wsgi_request
    request.context = person.context  # type: ignore[attr-defined]
    request.GET = QueryDict(urlencode([("id", str(key)) for key in foreign]))
    assert selection.resolve(request, the_list) == []
    request.GET = QueryDict("selection=all")
    assert not foreign & set(selection.resolve(request, the_list))


@SOME
def test_a_selection_has_the_given_ids_or_all_that_match(
    full: None, the_list: RecordList[Any], client: Client, person: Person
) -> None:
    every = ids(the_list, person.context)
    request = client.get(the_list.address).wsgi_request
    request.context = person.context  # type: ignore[attr-defined]
    request.GET = QueryDict(urlencode([("id", str(every[0])), ("id", "nonsense"), ("id", str(every[0]))]))
    assert selection.resolve(request, the_list) == every[:1]
    request.GET = QueryDict(f"selection=all&id={every[0]}")
    assert selection.resolve(request, the_list) == every
    assert selection.resolve(request, the_list, most=2) == every[:2]
    request.GET = QueryDict("selection=all&q=no+such+record")
    assert selection.resolve(request, the_list) == []


@SOME
def test_chosen_columns_are_kept_for_the_user_and_the_list(
    full: None, the_list: RecordList[Any], client: Client, person: Person
) -> None:
    columns = the_list.columns_for(person.context)
    last = columns[-1]
    kept = client.get(the_list.address, {"keep": "1", "column": [last.key], "size": "25", "density": "compact"})
    for page in (kept.content.decode(), client.get(the_list.address).content.decode()):
        heads = re.findall(r"<th scope=\"col\"[^>]*>(?:<a [^>]*>)?([^<\n]+)", page.partition('id="list-rows"')[0])
        assert heads == [columns[0].label, last.label]
        assert "compact" in page
    dialog = client.get(f"{the_list.address}?show=columns").content.decode()
    assert re.findall(r'value="([^"]+)" checked', dialog) == [last.key]
    assert "<option selected>25" in dialog
    path = kept.cookies[next(iter(kept.cookies))]["path"]
    assert path == the_list.address


@SOME
def test_a_live_frame_is_what_the_page_has(
    full: None, the_list: RecordList[Any], client: Client, person: Person
) -> None:
    if not the_list.kinds:
        return
    for query in ("", "sort=name", "q=a&size=25"):
        page = client.get(f"{the_list.address}?{query}")
        content = AGE.sub("", page.content.decode())
        name = re.findall(r'data-live-page="([^"]+)"', content)[0].replace("&amp;", "&")
        frame = AGE.sub("", render(replace(the_list, changed=None), name.partition("?")[2], [], person.context))
        assert re.findall(r'data-live-order="([^"]*)"', frame)[0].split() == shown(page), query
        for row in re.findall(r"<tr .*?</tr>", re.sub(' data-live-say="[^"]*"', "", frame), re.DOTALL):
            assert row in content


@SOME
def test_its_page_can_be_used_without_scripts(full: None, the_list: RecordList[Any], client: Client) -> None:
    page = client.get(the_list.address).content.decode()
    assert '<form method="get"' in page
    assert "<noscript>" in page
    for show in ("filters", "columns"):
        assert "<html" in client.get(f"{the_list.address}?show={show}").content.decode()
        assert (
            "<html"
            not in client.get(f"{the_list.address}?show={show}", headers={"HX-Request": "true"}).content.decode()
        )
