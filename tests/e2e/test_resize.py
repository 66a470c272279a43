"""A real guest that the unmodified command line resizes, from the request to the host and back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.one_machine import OneMachine, wait_for

pytestmark = [pytest.mark.compat, pytest.mark.libvirt, pytest.mark.deep]
NAME = "grown"
PATIENCE = 240.0


@pytest.fixture
def server(cloud: OneMachine) -> Iterator[str]:
    cloud.openstack(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net"),
        *("--wait", NAME),
    )
    yield NAME
    cloud.openstack("server", "delete", "--wait", NAME)
    assert not list(cloud.data.glob("hosts/*/instances/[!.]*"))


def becomes(cloud: OneMachine, status: str) -> None:
    def look() -> bool:
        shown = cloud.openstack_json("server", "show", NAME)["status"]
        assert shown != "ERROR"
        return bool(shown == status)

    wait_for(status, look, PATIENCE)


def starts(cloud: OneMachine) -> int:
    return cloud.openstack("console", "log", "show", NAME).count("Novella guest: ")


def test_resize_revert_resize_confirm(cloud: OneMachine, server: str) -> None:
    wait_for("the first start", lambda: starts(cloud) == 1, PATIENCE)
    cloud.openstack("server", "resize", "--flavor", "m1.tiny", NAME)
    becomes(cloud, "VERIFY_RESIZE")
    assert "m1.tiny" in str(cloud.openstack_json("server", "show", NAME)["flavor"])
    assert list(cloud.data.glob("hosts/*/instances/*/disk.qcow2.before"))
    wait_for("the second start", lambda: starts(cloud) == 2, PATIENCE)
    cloud.openstack("server", "resize", "revert", NAME)
    becomes(cloud, "ACTIVE")
    assert "m1.nano" in str(cloud.openstack_json("server", "show", NAME)["flavor"])
    cloud.openstack("server", "resize", "--flavor", "m1.tiny", NAME)
    becomes(cloud, "VERIFY_RESIZE")
    cloud.openstack("server", "resize", "confirm", NAME)
    becomes(cloud, "ACTIVE")
    assert not list(cloud.data.glob("hosts/*/instances/*/*.before"))
    identity = cloud.openstack_json("server", "show", NAME)["id"]
    rows = cloud.openstack_json("server", "migration", "list", "--server", identity, cloud="admin")
    assert [row["Status"] for row in rows] == ["confirmed", "reverted"]
    refused = cloud.client("server", "migrate", identity, cloud="admin")
    assert "No valid host was found" in refused.stderr
