"""Lists of servers find their page by an index, and read no more columns than they show."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.compute_api.conftest import V21, put_server
from tests.support.cast import Api, People
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def page_query(api: Api, path: str) -> str:
    """The statement that finds the servers of a page."""
    with CaptureQueriesContext(connection) as queries:
        assert api.get(path).status_code == 200
    [result] = [query["sql"] for query in queries if re.search(r'FROM "compute_instance".* LIMIT 1\d\d', query["sql"])]
    return str(result)


def plan_of(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


@each_row("part", ["servers", "servers/detail"])
@each_row(("everywhere", "index"), [(False, "instance_kept_of_project"), (True, "instance_kept")])
@each_row("later", [False, True])
def test_a_page_is_found_by_an_index(people: People, part: str, everywhere: bool, index: str, later: bool) -> None:
    servers = [put_server(people.operator, age=number) for number in range(3)]
    query = f"limit=100{'&all_tenants=1' if everywhere else ''}{f'&marker={servers[1].id}' if later else ''}"
    plan = plan_of(page_query(Api(people.operator), f"{V21}/{part}?{query}"))
    assert re.search(rf"USING (COVERING )?INDEX {index}\b", plan), plan
    assert "TEMP B-TREE" not in plan, "nothing is sorted"


def test_a_list_reads_what_it_shows(people: People) -> None:
    put_server(people.alice)
    brief = page_query(Api(people.alice), f"{V21}/servers?limit=100")
    assert '"flavor"' not in brief
    detail = page_query(Api(people.alice), f"{V21}/servers/detail?limit=100")
    for column in ("user_data", "injected_files", "public_key", "admin_password", "requested_networks"):
        assert f'"{column}"' not in detail
