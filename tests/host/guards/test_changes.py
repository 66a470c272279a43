"""The filters are changed bit by bit: what is in the kernel then is what it would be if it were loaded as a whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import SecurityRule
from compute_agent.contract.network import GroupMember
from compute_agent.network.filters.applying import Filters
from compute_agent.network.filters.identity import TABLE
from compute_agent.network.kernel import nft
from tests.host.cast import EGRESS, GROUP, OURS, PING, SSH, THEIRS, network
from tests.host.guards.conftest import SHARE, Guard


@pytest.fixture(params=["library", "program"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "program":
        monkeypatch.setattr(nft, "SMALL", 0)


def in_kernel(guard: Guard) -> dict[str, object]:
    """What both tables hold, by kind and name, in an order that says nothing of how it came about."""
    result: dict[str, object] = {}
    for family in ("bridge", "inet"):
        listed = json.loads(guard.space.run("nft", "-j", "list", "table", family, TABLE))["nftables"]
        for entry in listed[2:]:
            ((kind, item),) = entry.items()
            item.pop("handle", None)
            if kind == "rule":
                result.setdefault(f"{family} rules {item['chain']}", []).append(item["expr"])  # type: ignore[attr-defined]
                if item["chain"].startswith("group-"):  # their order says nothing
                    result[f"{family} rules {item['chain']}"].sort(key=json.dumps)  # type: ignore[attr-defined]
                continue
            if "elem" in item:
                item["elem"] = sorted(item["elem"], key=json.dumps)
            result[f"{family} {kind} {item['name']}"] = item
    return result


def test_bit_by_bit_is_as_good_as_a_whole(guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    load = nft.load
    monkeypatch.setattr(nft, "load", lambda text: (loads.append(text), load(text)))
    other = network(30)
    one = guard.plug(1)
    before = len(loads)
    guard.allow(EGRESS, SSH)
    two = guard.plug(2)
    guard.allow(EGRESS, SSH, GROUP, PING)
    guard.plug(3, groups=(OURS, THEIRS), net=other)
    guard.allow(EGRESS, group=THEIRS, members=[GroupMember(network_id=other.id, address="10.30.0.99")])
    guard.allow(SSH, SecurityRule(direction="ingress", remote_group_id=THEIRS), stateful=False)
    guard.join(network(), other)
    guard.allow(EGRESS, GROUP)
    for gone in (one, two):
        guard.ports.pop(gone.port.id)
        guard.apply()
    guard.groups.pop(THEIRS)
    for key, port in guard.ports.items():
        guard.ports[key] = replace_port(port, enabled=False)
    guard.apply()
    assert len(loads) > before + 8
    assert not [text for text in loads[before:] if re.search(r"^delete table", text, re.MULTILINE)]
    seen = in_kernel(guard)
    numbers = tmp_path / "numbers"
    numbers.mkdir()
    for name in ("ports.json", "zones.json"):
        (numbers / name).write_bytes((guard.folder / name).read_bytes())
    guard.space.do(lambda: Filters(numbers, lambda _: SHARE).apply(guard.desired))
    assert "delete table" in loads[-1]
    assert in_kernel(guard) == seen


def replace_port(port: object, **changes: object) -> object:
    """Return a port of this host with another description."""
    return type(port)(port.instance_id, port.hostname, replace(port.port, **changes))  # type: ignore[attr-defined,call-arg]


def test_what_somebody_else_has_changed_is_replaced_as_a_whole(guard: Guard) -> None:
    guard.plug(1)
    guard.allow(EGRESS, SSH)
    seen = in_kernel(guard)
    chain = next(name.split()[-1] for name in seen if name.startswith("inet chain group-") and name.endswith("-in"))
    guard.space.run("nft", "flush", "map", "inet", TABLE, "in")
    guard.space.run("nft", "delete", "chain", "inet", TABLE, "in-1")
    guard.allow(EGRESS, SSH, PING)
    guard.ports.clear()
    guard.apply()
    assert in_kernel(guard)["inet map in"] == {
        key: value for key, value in seen["inet map in"].items() if key != "elem"
    }  # type: ignore[attr-defined]
    assert f"inet chain {chain}" not in in_kernel(guard)
