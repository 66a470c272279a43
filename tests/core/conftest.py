"""Callers and a cloud without hosts; a test adds the hosts it needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from provisioning.common.context import RequestContext
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context


@pytest.fixture
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
def charlie() -> RequestContext:
    return context("charlie")


@pytest.fixture
def operator() -> RequestContext:
    return context("operator", ADMIN)


def _looked_after(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """Make a cloud; when the test ends all must be right in it but what the mark ``doctor_finds`` names."""
    yield Cloud.make()
    mark = request.node.get_closest_marker("doctor_finds")
    invariants.check(*(mark.args if mark else ()))


@pytest.fixture
def cloud(db: None, request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """A cloud in which all must be right when the test ends."""
    yield from _looked_after(request)


@pytest.fixture
def shared_cloud(transactional_db: None, request: pytest.FixtureRequest, settings: Settings) -> Iterator[Cloud]:
    """The same for tests whose threads must see each other's commits.  Their hosts are up, however long it takes."""
    settings.HOST_DOWN_AFTER = 1800
    yield from _looked_after(request)
