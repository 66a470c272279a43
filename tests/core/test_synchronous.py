"""Answered changes are on the disk as soon as hosts can outlive a power failure of the portal's machine."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from compute_agent.contract.messages import Enrol, Hello
from portal.environment import database
from provisioning.common.sqlite import remote_hosts
from provisioning.common.sqlite.base import DatabaseWrapper
from provisioning.hosts import enrolment, liveness
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db

NORMAL, FULL = 1, 2


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseWrapper]:
    """A connection to a database of its own, by the settings as they come."""
    monkeypatch.delenv("NOVELLA_SQLITE_SYNCHRONOUS", raising=False)
    result = DatabaseWrapper(configured(tmp_path), alias="probe")
    monkeypatch.setattr(remote_hosts, "connection", result)
    yield result
    result.close()


def configured(folder: Path) -> dict[str, Any]:
    return {**connection.settings_dict, **database("NOVELLA_NO_URL", folder, "web", 1)}


def level(wrapper: DatabaseWrapper) -> int:
    wrapper._look_at = min(wrapper._look_at, 0.0)
    with wrapper.cursor() as cursor:
        return int(cursor.execute("PRAGMA synchronous").fetchone()[0])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1", "", "not an address", "0.0.0.0"])  # noqa: S104
def test_hosts_on_this_machine_fail_with_it(opened: DatabaseWrapper, address: str) -> None:
    remote_hosts.note_remote_host(address)
    assert level(opened) == NORMAL


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7", "fe80::7%eth9"])
def test_a_host_on_another_machine_makes_every_connection_sync_each_commit(
    opened: DatabaseWrapper, address: str, tmp_path: Path
) -> None:
    assert level(opened) == NORMAL
    remote_hosts.note_remote_host(address)
    remote_hosts.note_remote_host(address)
    assert level(opened) == FULL
    later = DatabaseWrapper(configured(tmp_path), alias="later")
    assert level(later) == FULL
    later.close()


def test_what_the_operator_chose_stays(
    opened: DatabaseWrapper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote_hosts.note_remote_host("192.0.2.7")
    monkeypatch.setenv("NOVELLA_SQLITE_SYNCHRONOUS", "NORMAL")
    chosen = DatabaseWrapper(configured(tmp_path), alias="chosen")
    assert level(chosen) == NORMAL
    chosen.close()


def test_hosts_are_heard_of_by_their_links_and_their_audits(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(remote_hosts, "note_remote_host", heard.append)
    credential = secrets.token_hex(32)
    enrolment.enrol(Enrol(join_token=enrolment.create_join_token("far"), host="far", credential=credential))
    liveness.admit("far", credential, Hello(host="far"), "192.0.2.7")
    assert heard == ["192.0.2.7"]
    near = cloud.add_host("near")
    heard.clear()
    near.measured()
    assert heard == [""]
