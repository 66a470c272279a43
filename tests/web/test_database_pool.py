"""The connections to PostgreSQL that web processes hold together."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.environment import database

URL = "NOVELLA_TESTS_URL"


@pytest.mark.parametrize(("processes", "each"), [(1, 24), (2, 24), (3, 16), (4, 12), (16, 12)])
def test_several_processes_share_what_the_server_allows(
    processes: int, each: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(URL, "postgres://user@host/name")
    assert database(URL, tmp_path, "web", 1, processes)["OPTIONS"]["pool"]["max_size"] == each
    assert "pool" not in database(URL, tmp_path, "worker", 1, processes).get("OPTIONS", {})
