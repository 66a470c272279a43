"""What somebody else takes away while the host works with it is the host's trouble, to be tried again."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from compute_agent.network.kernel import links
from compute_agent.virt.errors import RetryableHostError
from tests.host.lab import Space

MAC = "fa:16:3e:00:00:01"


@pytest.fixture
def space() -> Iterator[Space]:
    space = Space(f"nvx{os.getpid()}")
    yield space
    space.remove()


@pytest.mark.parametrize("missing", ["bridge", "interface"])
def test_an_interface_or_its_bridge_that_is_gone_is_reported(space: Space, missing: str) -> None:
    if missing == "bridge":
        space.run("ip", "link", "add", "one", "type", "veth", "peer", "name", "two")
    else:
        space.run("ip", "link", "add", "name", "br", "type", "bridge")

    def attach() -> None:
        with links.netlink("join a router with its network") as route:
            links.attach(route, "one", "br", MAC, 1450)

    with pytest.raises(RetryableHostError, match="could not join a router with its network"):
        space.do(attach)
