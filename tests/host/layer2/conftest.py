"""Two hosts on one switch, and interfaces of guests without the guests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.layer2.rack import Rack


@pytest.fixture(scope="module")
def rack(request: pytest.FixtureRequest) -> Iterator[Rack]:
    """Two hosts for each test module; nothing of them is left."""
    name = f"nvl{os.getpid()}-{abs(hash(request.node.nodeid)) % 1000}"
    with tempfile.TemporaryDirectory(prefix="nvl-") as folder:
        rack = Rack(Path(folder), name)
        yield rack
        rack.remove()
        assert rack.traces() == []


@pytest.fixture(autouse=True)
def _cleared(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test leaves, one that failed above all, is not the next one's."""
    rack: Rack | None = request.getfixturevalue("rack") if "rack" in request.fixturenames else None
    yield
    if rack is not None:
        rack.forget_all()
