"""docs/operations.md shows the support of every operation of the references; ``WRITE_PAGES=1`` generates it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from portal.api.network.versions import EXTENSIONS
from tests.reference.operations import NOT_OFFERED, TITLES, Operation, operations, page
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import check_each

EVERY = [each for service in TITLES for each in operations(service)]
REFUSED = [each for each in EVERY if each.status not in {None, "~"}]
MANY = {"identity", "network"}
"""Services that say no in one way to much: one test asks for all of it."""
EXTENSION = re.compile(r".* \(extension (\S+)\)")


@pytest.mark.slow
def test_the_page_says_what_is() -> None:
    path = Path(__file__).resolve().parents[2] / "docs/operations.md"
    if os.environ.get("WRITE_PAGES"):
        path.write_text(page())
    assert path.read_text() == page(), "run this test with WRITE_PAGES=1"


def test_no_operation_is_listed_twice() -> None:
    names = [(each.service, each.name) for each in EVERY]
    assert len(names) == len(set(names))


@pytest.fixture
@standing
def server(people: People) -> str:
    """The id of a running server of the operator's."""
    cloud = Cloud.make()
    cloud.add_host("h1")
    return str(cloud.running(people.operator.context).id)


@pytest.mark.parametrize("service", sorted({each.service for each in REFUSED} - MANY))
def test_what_is_not_offered_is_reported_as_the_reference_says(people: People, server: str, service: str) -> None:
    api = Api(people.operator)

    def check(operation: Operation) -> None:
        assert operation.outcome == NOT_OFFERED
        send, url = getattr(api, operation.method.lower()), operation.url(server_id=server)
        body = {operation.action: None} if operation.action else {}
        answer = send(url, body) if operation.method in {"POST", "PUT"} else send(url)
        assert answer.status_code == int(operation.status or 0), answer.content

    check_each([each for each in REFUSED if each.service == service], check, lambda each: each.name)


@pytest.mark.slow
@pytest.mark.django_db
def test_what_identity_and_networking_do_not_offer_is_refused(people: People) -> None:
    api = Api(people.operator)
    for operation in REFUSED:
        if operation.service in MANY:
            send = getattr(api, operation.method.lower())
            answer = (
                send(operation.url(), {}) if operation.method in {"POST", "PUT", "PATCH"} else send(operation.url())
            )
            assert (operation.outcome, answer.status_code) == (NOT_OFFERED, int(operation.status or 0)), operation.name


def test_an_extension_is_listed_or_its_operations_are_not_there() -> None:
    for operation in operations("network"):
        extension = EXTENSION.fullmatch(operation.section)
        assert bool(extension) == (operation.status == "404"), operation.name
        assert extension is None or extension[1] not in EXTENSIONS, operation.section
