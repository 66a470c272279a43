"""Values of guests from libvirt's statistics."""

from __future__ import annotations

from typing import Any

from compute_agent.contract.samples import GUEST_SERIES
from compute_agent.virt.libvirt.usage import values_of

STATS: dict[str, Any] = {
    "cpu.time": 12_500_000_000,
    "balloon.current": 1_048_576,
    "balloon.rss": 700_000,
    "net.count": 2,
    **{
        f"net.{number}.{way}.{what}": 10 + number
        for number in range(2)
        for way in ("rx", "tx")
        for what in ("bytes", "pkts")
    },
    "block.count": 1,
    **{f"block.0.{way}.{what}": 7 for way in ("rd", "wr") for what in ("bytes", "reqs")},
}


def usage_of(**changes: Any) -> dict[str, float | None]:
    stats = {name: value for name, value in (STATS | changes).items() if value is not None}
    return dict(zip(GUEST_SERIES, values_of(stats), strict=True))


def test_disks_and_interfaces_are_summed() -> None:
    values = usage_of()
    assert (values["cpu"], values["network_in"], values["packets_out"]) == (12.5, 21, 21)
    assert (values["disk_read"], values["disk_writes"]) == (7, 7)


def test_memory_is_what_the_guest_reports_or_else_what_it_occupies() -> None:
    balloon = {"balloon.available": 1_000_000, "balloon.usable": 750_400, "balloon.last-update": 5}
    assert usage_of(**balloon)["memory"] == 243.75
    assert usage_of()["memory"] == 700_000 / 1024
    assert usage_of(**{**balloon, "balloon.last-update": 0})["memory"] == 700_000 / 1024


def test_a_guest_that_is_busy_has_gaps() -> None:
    """libvirt leaves out values for which it would have to wait for the guest's monitor."""
    assert usage_of(**{"block.count": None})["disk_read"] is None
    assert usage_of(**{"net.1.rx.bytes": None})["network_in"] is None
    assert all(value is None for value in values_of({}))
