"""Two hosts, a network outside of them, and what they are told of routers and floating IPs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.layer3.town import Town


@pytest.fixture(scope="module")
def _town(request: pytest.FixtureRequest) -> Iterator[Town]:
    name = f"nvr{os.getpid()}-{abs(hash(request.node.nodeid)) % 1000}"
    with tempfile.TemporaryDirectory(prefix="nvr-") as folder:
        town = Town(Path(folder), name)
        yield town
        town.remove()
        assert town.traces() == []


@pytest.fixture
def town(_town: Town) -> Iterator[Town]:
    """A town of two hosts for each test module; after each test nothing is left on the hosts."""
    yield _town
    _town.clear()
    assert _town.left() == {}
