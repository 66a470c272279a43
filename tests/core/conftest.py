"""Callers and a cloud without hosts; a test adds the hosts it needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provisioning.common.context import RequestContext
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context
from tests.support.standing import derived, standing


@pytest.fixture
@derived
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
@derived
def charlie() -> RequestContext:
    return context("charlie")


@pytest.fixture
@derived
def operator() -> RequestContext:
    return context("operator", ADMIN)


def _examine(request: pytest.FixtureRequest) -> None:
    """Fail unless all is right in the cloud but what the mark ``doctor_finds`` names."""
    mark = request.node.get_closest_marker("doctor_finds")
    invariants.check(*(mark.args if mark else ()))


@pytest.fixture(autouse=True)
def _examined(request: pytest.FixtureRequest) -> Iterator[None]:
    """Examine the cloud at the end of each test that has one."""
    if "cloud" not in request.fixturenames:
        yield
        return
    request.getfixturevalue("db")
    yield
    _examine(request)


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    """A cloud in which all must be right when the test ends."""
    return Cloud.make()


@pytest.fixture
def shared_cloud(transactional_db: None, request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """The same for tests whose threads must see each other's commits."""
    yield Cloud.make()
    _examine(request)
