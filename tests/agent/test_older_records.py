"""What an older build left on the disk is still read, and opens nothing that it did not open."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compute_agent.contract.build import InstanceSpec, PortRef, SecurityRule
from compute_agent.manager.store import StateStore
from compute_agent.network.records import Records
from tests.agent.cast import build, make_spec

ANYWHERE = {"direction": "egress", "remote_ip_prefix": None, "remote_network": False}
OFFICE = {"direction": "ingress", "remote_ip_prefix": "192.0.2.0/24", "remote_network": False}
GROUP = {"direction": "ingress", "remote_ip_prefix": None, "remote_network": True}


def as_older(value: Any) -> Any:
    """The value as a build wrote it that knew no members of groups."""
    if isinstance(value, dict):
        older = {key: as_older(item) for key, item in value.items() if key != "security_group_ids"}
        return older | {"security_rules": [ANYWHERE, GROUP, OFFICE]} if "security_rules" in older else older
    return [as_older(item) for item in value] if isinstance(value, list) else value


def record(folder: Path, spec: InstanceSpec) -> list[PortRef]:
    """Through the network's records."""
    Records(folder).put(spec)
    path = folder / f"{spec.uuid}.json"
    older = msgspec.json.encode(as_older(msgspec.json.decode(path.read_bytes())))
    path.write_bytes(msgspec.json.format(older, indent=1))
    return Records(folder).ports()


def rewrite(path: Path, table: str, column: str) -> None:
    with sqlite3.connect(path) as database:
        [body] = database.execute(f"SELECT {column} FROM {table}").fetchone()  # noqa: S608
        older = msgspec.json.encode(as_older(msgspec.json.decode(body)))
        database.execute(f"UPDATE {table} SET {column} = ?", (older,))  # noqa: S608
    database.close()


def guest(folder: Path, spec: InstanceSpec) -> list[PortRef]:
    """Through the store, as a guest that runs."""
    path, command = folder / "state.sqlite3", build(spec)
    store = StateStore(path)
    store.accept(command)
    store.begin(command)
    store.close()
    rewrite(path, "instances", "spec")
    store = StateStore(path)
    ports = store.specs({spec.uuid})[spec.uuid].ports
    store.close()
    return ports


def order(folder: Path, spec: InstanceSpec) -> list[PortRef]:
    """Through the store, as a build that was broken off."""
    path = folder / "state.sqlite3"
    store = StateStore(path)
    store.accept(build(spec))
    store.close()
    rewrite(path, "commands", "body")
    store = StateStore(path)
    [unfinished] = store.unfinished()
    store.close()
    return unfinished.command.body.instance.ports  # type: ignore[union-attr]


@pytest.mark.parametrize("through", [record, guest, order])
def test_a_rule_for_the_whole_network_is_dropped_and_not_opened_to_all(
    tmp_path: Path, through: Callable[[Path, InstanceSpec], list[PortRef]]
) -> None:
    spec = make_spec()
    [port] = through(tmp_path, spec)
    assert port.id == spec.ports[0].id
    assert port.security_group_ids == []
    assert port.security_rules == [
        SecurityRule(direction="egress"),
        SecurityRule(direction="ingress", remote_ip_prefix="192.0.2.0/24"),
    ]
