"""What lives in network namespaces, to be compared: whether something is left of what a test has made in them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

from compute_agent.network.kernel import namespace
from up.processes import command_line
from up.switch import processes_in


def traces(prefix: str) -> set[str]:
    """Every namespace whose name begins so, with its interfaces, addresses, filter tables and processes; one line each.

    Numbers that change when nothing does (of processes, of link-local addresses) are left out.
    """
    return {line for name in namespace.listed(prefix) for line in (f"namespace {name}", *_in(name))}


def made_of(prefix: str) -> dict[str, tuple[str, ...]]:
    """What a host has made in every namespace whose name begins so, and the numbers of the processes there."""
    commands = (
        ("nft", "--stateless", "list", "ruleset"),
        ("ip", "-br", "link"),
        ("ip", "route"),
        ("ip", "-6", "route"),
    )
    return {
        name: (
            *(subprocess.check_output(["ip", "netns", "exec", name, *command], text=True) for command in commands),
            *sorted(f"{pid}: {command_line(pid)}" for pid in processes_in([name])),
        )
        for name in namespace.listed(prefix)
    }


def _in(name: str) -> Iterator[str]:
    for row in _json(name, "ip", "-j", "address", "show"):
        yield f"{name}: interface {row['ifname']}"
        for address in row["addr_info"]:
            if address["scope"] != "link":
                yield f"{name}: {row['ifname']} {address['local']}/{address['prefixlen']}"
    for row in _json(name, "nft", "-j", "list", "tables"):
        if "table" in row:
            yield f"{name}: table {row['table']['family']} {row['table']['name']}"
    for pid in processes_in([name]):
        yield f"{name}: process {command_line(pid)}"


def _json(name: str, *command: str) -> list[dict[str, Any]]:
    done = subprocess.run(["ip", "netns", "exec", name, *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # It goes at this moment: the kernel has it no more, and soon its name is not there.
        assert "setting the network namespace" in done.stderr or name not in namespace.listed(name), done.stderr
        return []
    result: Any = json.loads(done.stdout or "[]")
    return list(result if isinstance(result, list) else result["nftables"])
