"""A list of 10,000 records: a page of it costs the queries and bytes of a short one, whatever part of it is shown."""

from __future__ import annotations

import csv
import gzip
import io
import re
import uuid
from copy import copy
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.dashboard.instances.lists.listing import INSTANCES
from portal.dashboard.lists import selection
from portal.dashboard.lists.live import render
from provisioning.compute.models import Instance
from provisioning.events.selectors import LoggedEvent
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.standing import standing

pytestmark = pytest.mark.slow
MANY = 10_000
KILOBYTES = 12
"""Budget of a page of 100 rows, as it is sent."""
PARTS = (
    *("", "?page=50", "?page=999999", "?sort=name", "?sort=-created", "?q=web-77", "?status=ACTIVE&page=7"),
    *("?q=web&sort=-name&page=20", "?q=nothing"),
)


@pytest.fixture
@standing
def first(cloud: Cloud, alice: Person) -> Instance:
    return cloud.running(alice.context, name="web-0")


@pytest.fixture
@standing
def many(first: Instance) -> None:
    """Servers like the first one, each a second older."""
    rows = []
    for number in range(1, MANY):
        row = copy(first)
        row.id, row.name = uuid.uuid4(), f"web-{number}"
        row.created_at = first.created_at - timedelta(seconds=number)
        rows.append(row)
    Instance.objects.bulk_create(rows, batch_size=500)


def costs(client: Client, part: str) -> tuple[int, bytes]:
    """Return the queries and the HTML of a part of the list."""
    address = f"{INSTANCES.address}{part or '?'}&size=100"
    with CaptureQueriesContext(connection) as sent:
        answer = client.get(address)
    assert answer.status_code == 200, part
    return len(sent), answer.content


def test_each_part_of_a_long_list_costs_what_a_page_costs(at_alice: Client, first: Instance, many: None) -> None:
    Instance.objects.exclude(id=first.id).update(project_id=uuid.uuid4())
    at_alice.get(INSTANCES.address)
    short, _ = costs(at_alice, "")
    Instance.objects.exclude(id=first.id).update(project_id=first.project_id)
    for part in PARTS:
        queries, page = costs(at_alice, part)
        rows = len(re.findall(r'<tr id="instance-', page.decode()))
        assert rows == (0 if "nothing" in part else 100), part
        assert queries <= short, part
        assert len(gzip.compress(page)) < 1000 * KILOBYTES, part


def test_the_pages_of_a_long_list_know_where_they_are(at_alice: Client, many: None) -> None:
    page = at_alice.get(f"{INSTANCES.address}?page=3&size=100").content.decode()
    assert "201\N{EN DASH}300 of 10,000 instances" in page
    assert "The first 1,000 of 10,000 that match" in page
    last = at_alice.get(f"{INSTANCES.address}?page=999999&size=100").content.decode()
    assert "9,901\N{EN DASH}10,000 of 10,000 instances" in last
    assert 'rel="next"' not in last


def test_a_change_in_a_long_list_is_one_row(alice: Person, first: Instance, many: None) -> None:
    event = LoggedEvent(1, "", "instance", {"id": str(first.id), "name": first.name})
    with CaptureQueriesContext(connection) as sent:
        frame = render(INSTANCES, "", [event], alice.context)
    assert len(re.findall("<tr ", frame)) == 1
    assert len(frame) < 10_000
    assert len(sent) < 15


def test_all_that_match_are_at_most_those_of_one_action(at_alice: Client, alice: Person, many: None) -> None:
    request = at_alice.get(INSTANCES.address, {"selection": "all", "q": "web"}).wsgi_request
    request.context = alice.context  # type: ignore[attr-defined]
    assert len(selection.resolve(request, INSTANCES)) == selection.MOST


def test_a_file_has_every_row_of_a_long_list(at_alice: Client, many: None) -> None:
    answer = at_alice.get(f"{INSTANCES.address}?format=csv&sort=name&column=name")
    text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    assert len(list(csv.reader(io.StringIO(text)))) == MANY + 1
