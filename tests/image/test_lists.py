"""Lists of images: every filter of the reference, and what they cost."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from portal.api.image.images.queries import LIST_PAGES, SORT_COLUMNS, SORTING, read_filters
from provisioning.common.errors import NovellaError
from provisioning.images import selectors, services
from provisioning.images.models import Image, ImageProperty, ImageTag
from tests.image import pictures
from tests.image.asking import V2, names, patch, remove, replace
from tests.image.conftest import MakeImage
from tests.support.cast import Api, People, Person

pytestmark = pytest.mark.both_databases("sql")

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=6)  # names have no others
NAMES = st.sampled_from(["os_distro", "x", "hidden", "a b", "\N{SNOWMAN}"])
SOME = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_sums_and_numbers(alice: Person, make: MakeImage) -> None:
    small = make(name="small", data=pictures.raw(512), min_ram=64)
    big = make(name="big", data=pictures.raw(1024), min_disk=5)
    make(name="empty")
    small.refresh_from_db()
    assert (
        names(alice, f"checksum={small.checksum}") == names(alice, f"os_hash_value={small.os_hash_value}") == ["small"]
    )
    assert names(alice, "os_hash_algo=sha512&checksum=none") == []
    assert names(alice, "size=512") == names(alice, "size_max=1023") == names(alice, "min_ram=64") == ["small"]
    assert names(alice, "size_min=513") == names(alice, "min_disk_min=1") == ["big"]
    assert names(alice, f"virtual_size={big.virtual_size}&size_min=1&size_max=999999999999999999") == ["big"]
    assert names(alice, "min_disk=999999999999999999") == []


def test_in_and_quotes(alice: Person, make: MakeImage) -> None:
    made = [make(name=name) for name in ("glass, darkly", "share me", "glass", 'say "hi"', "colon: 22.04")]
    requested = {
        'in:"glass, darkly",share me': ["share me", "glass, darkly"],
        "in:glass,share": ["glass"],
        "in:": [],
        'in:"say ""hi"""': ['say "hi"'],
        "eq:glass": ["glass"],
        "colon: 22.04": ["colon: 22.04"],
        "in:colon: 22.04,nothing": ["colon: 22.04"],
    }
    for value, result in requested.items():
        assert names(alice, urlencode({"name": value})) == result, value
    both = f"id=in:{made[0].id},{made[1].id},nonsense"
    assert names(alice, both) == ["share me", "glass, darkly"]
    assert names(alice, "status=in:queued,saving&limit=1") == ["colon: 22.04"]
    assert names(alice, "status=in:active") == names(alice, "container_format=in:ovf") == []


def test_times_are_compared_as_they_are_shown(alice: Person, make: MakeImage) -> None:
    for second, name in ((10, "a"), (20, "b"), (30, "c")):
        with time_machine.travel(datetime.datetime(2026, 1, 1, 12, 0, second, 900_000, datetime.UTC), tick=False):
            make(name=name)
    b = "2026-01-01T12:00:20Z"
    for comparison, result in {
        "eq": ["b"],
        "neq": ["c", "a"],
        "gt": ["c"],
        "gte": ["c", "b"],
        "lt": ["a"],
        "lte": ["b", "a"],
    }.items():
        assert names(alice, f"created_at={comparison}:{b}") == names(alice, f"updated_at={comparison}:{b}") == result
    assert (
        names(alice, f"created_at={b}") == names(alice, "created_at=" + quote("eq:2026-01-01T14:00:20+02:00")) == ["b"]
    )
    assert names(alice, "created_at=gt:2026-01-01T12:00:10Z&updated_at=lt:2026-01-01T12:00:30Z") == ["b"]


@pytest.mark.parametrize(
    "query",
    [
        "created_at=gt:yesterday",
        "created_at=like:2026-01-01",
        "updated_at=gt:",
        "created_at=9999-12-31T23:59:59Z",
        "created_at=0001-01-01T00:00:00%2B14:00",
        "size_min=many",
        "min_ram_max=1.5",
        "name=neq:x",
        "status=gt:active",
        "member_status=perhaps",
        "changes-since=2026-01-01",
        "os_hidden=1",
        "limit=-1",
        "limit=one",
        "limit=%D9%A1",
        "sort=name:up",
        "sort=,",
        "sort_key=name&sort_key=id&sort_key=size&sort_dir=asc&sort_dir=desc",
        "name=%00",
        "tag=%00",
        "%00=x",
    ],
)
@pytest.mark.both_databases
def test_a_wrong_filter_is_named(alice: Person, query: str) -> None:
    answer = Api(alice).get(f"{V2}/images?{query}")
    assert answer.status_code == 400, answer.content
    assert answer.json()["message"]


@pytest.mark.both_databases
def test_sentences_of_the_reference(alice: Person) -> None:
    for query, sentence in {
        "limit=x": "limit param must be an integer",
        "limit=-5": "limit param must be positive",
        "visibility=x": "Invalid visibility value: x",
        "member_status=x": "Invalid status: x",
        "sort_key=name&sort_dir=x": "Invalid sort direction: x",
        "sort=name&sort_dir=asc": "Old and new sorting syntax cannot be combined",
        "name=neq:x": "Unable to filter by unknown operator 'neq'.",
        "updated_at=x": 'Bad "updated_at" query filter format. Use ISO 8601 DateTime notation.',
    }.items():
        assert Api(alice).get(f"{V2}/images?{query}").json()["message"] == sentence


@pytest.mark.both_databases
def test_limits(alice: Person, make: MakeImage) -> None:
    for number in range(3):
        make(name=str(number))
    body = Api(alice).get(f"{V2}/images?limit=0").json()
    assert body["images"] == []
    assert "next" not in body
    body = Api(alice).get(f"{V2}/images?limit=2&tag=&sort=name:asc").json()
    assert (body["images"], "next" in body) == ([], False)
    assert names(alice, "limit=99999999999999999999") == ["2", "1", "0"]


def test_pages_keep_their_filters(alice: Person, make: MakeImage) -> None:
    for number in range(5):
        make(name=str(number), tags=["x", "y"], properties={"kind": "even" if number % 2 == 0 else "odd"})
    path, seen = "/v2/images?limit=1&kind=even&tag=x&tag=y&sort=name:asc", []
    for _ in range(5):
        body = Api(alice).get(f"/image{path}").json()
        seen += [image["name"] for image in body["images"]]
        assert "marker" not in body["first"]
        if "next" not in body:
            break
        path = body["next"]
    assert seen == ["0", "2", "4"]


def test_visibilities_of_lists(people: People, make: MakeImage) -> None:
    for visibility in ("private", "shared", "community"):
        make(name=f"alice {visibility}", visibility=visibility)
        make(people.operator, name=f"operator {visibility}", visibility=visibility)
    make(people.operator, name="public", visibility="public")
    mine = ["alice private", "alice shared", "alice community"]
    assert set(names(people.alice)) == {*mine, "public"}
    assert names(people.charlie) == ["public"]
    assert set(names(people.charlie, "visibility=community")) == {"alice community", "operator community"}
    assert names(people.charlie, "visibility=private") == names(people.charlie, "visibility=shared") == []
    assert set(names(people.charlie, "visibility=all")) == {"public", "alice community", "operator community"}
    assert names(people.charlie, f"visibility=private&owner={people.alice.project_id.hex}") == []
    every = {each.name for each in Image.objects.all()}
    assert set(names(people.operator)) == every - {"alice community"}
    assert set(names(people.operator, "visibility=all")) == every
    assert set(names(people.operator, f"visibility=all&owner={people.alice.project_id.hex}")) == set(mine)


@pytest.mark.slow
@SOME
@given(
    images=st.lists(
        st.tuples(st.dictionaries(NAMES, TEXT, max_size=3), st.lists(TEXT.filter(bool), max_size=3)), max_size=5
    ),
    requested=st.dictionaries(NAMES, TEXT, max_size=2),
    tags=st.lists(TEXT.filter(bool), max_size=2),
)
def test_tags_and_properties_are_found(
    alice: Person, images: list[Any], requested: dict[str, str], tags: list[str]
) -> None:
    Image.objects.all().delete()
    if images:  # what is asked for is there as often as not
        requested, tags = dict(list(images[0][0].items())[:1]) or requested, images[0][1][:1] or tags
    for number, (properties, own) in enumerate(images):
        services.create(alice.context, name=str(number), properties=properties, tags=own)
    result = {image.name for image in selectors.images_for(alice.context, {"properties": requested, "tags": tags})}
    assert result == {
        str(number)
        for number, (properties, own) in enumerate(images)
        if requested.items() <= properties.items() and set(tags) <= set(own)
    }


def test_rows_for_filters_follow_the_record(alice: Person, make: MakeImage) -> None:
    image = make(tags=["a", "b"], properties={"kept": "1", "changed": "1", "gone": "1"})
    patch(alice, image.id, replace("/tags", ["b", "c"]), replace("/changed", "2"), remove("/gone"))
    assert names(alice, "kept=1&changed=2&tag=b&tag=c") == ["picture"]
    for query in ("changed=1", "gone=1", "tag=a", "kept=2"):
        assert names(alice, query) == []
    Api(alice).delete(f"{V2}/images/{image.id}/tags/b")
    assert names(alice, "tag=b") == []
    services.delete(alice.context, image.id)
    assert not ImageTag.objects.exists()
    assert not ImageProperty.objects.exists()


QUERIES = st.lists(
    st.tuples(
        st.sampled_from(["limit", "marker", "name", "id", "status", "created_at", "size_min", "sort", "sort_key"])
        | st.sampled_from(["sort_dir", "visibility", "tag", "owner", "protected", "os_hidden", "member_status"])
        | st.text(max_size=8),
        st.text(max_size=12) | st.sampled_from(["in:", 'in:"', "gt:", "-1", "0", "name:asc", "true", "all"]),
    ),
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(query=QUERIES)
def test_any_query_is_read_or_refused(query: list[tuple[str, str]]) -> None:
    read_all(query)


@pytest.mark.deep
@settings(max_examples=150, deadline=None)
@given(query=QUERIES)
def test_many_queries_are_read_or_refused(query: list[tuple[str, str]]) -> None:
    read_all(query)


def read_all(query: list[tuple[str, str]]) -> None:
    sent = urlencode([(name.encode("utf-8", "replace"), value.encode("utf-8", "replace")) for name, value in query])
    request = Request(APIRequestFactory().get(f"/image/v2/images?{sent}"))
    with contextlib.suppress(NovellaError):
        read_filters(request)
    with contextlib.suppress(NovellaError):
        SORTING.read(request.query_params, SORT_COLUMNS)
    with contextlib.suppress(NovellaError):
        assert 0 <= LIST_PAGES.read(request).limit <= 1000


def test_a_list_costs_the_same_for_any_filter(people: People, make: MakeImage) -> None:
    api = Api(people.alice)
    requested = (
        "",
        "?tag=x&tag=y",
        "?os_distro=novella&visibility=all",
        "?member_status=all&visibility=shared",
        "?limit=2",
    )
    counts: dict[str, set[int]] = {query: set() for query in requested}
    for _ in range(2):
        for _ in range(3):
            make(tags=["x", "y"], properties={"os_distro": "novella"})
            shared = make(people.charlie)
            services.add_member(people.charlie.context, shared.id, people.alice.project_id)
        for query in requested:
            api.get(f"{V2}/images{query}")
            with CaptureQueriesContext(connection) as queries:
                assert api.get(f"{V2}/images{query}").status_code == 200
            counts[query].add(len(queries))
    assert counts == {query: {2} for query in requested}


@pytest.mark.parametrize("query", ["tag=rare", "os_distro=rare"])
def test_rare_tags_and_properties_are_found_by_their_index(alice: Person, make: MakeImage, query: str) -> None:
    if connection.vendor != "sqlite":
        return
    make(tags=["rare"], properties={"os_distro": "rare"})
    with CaptureQueriesContext(connection) as queries:
        assert names(alice, query) == ["picture"]
    sql = next(each["sql"] for each in queries if 'FROM "images_image"' in each["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql.replace('%', '%%')}")
        plan = " ".join(str(row[-1]) for row in cursor.fetchall())
    assert ("image_tag" if query.startswith("tag") else "image_property") in plan
    assert "SCAN images_image" not in plan or "USING INDEX" in plan
