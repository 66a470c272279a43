"""The counters of a server over HTTP."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compute_agent.contract.calls import CallError, CpuDiagnostics, Diagnostics, DiskDiagnostics, NicDiagnostics
from provisioning.hosts import calls
from tests.compute_api.conftest import NEWEST, V21
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import derived

pytestmark = pytest.mark.django_db

DIAGNOSTICS = Diagnostics(
    power_state=1,
    uptime=61.7,
    memory_mb=128,
    memory_used_mb=70,
    hypervisor="qemu",
    hypervisor_os="linux",
    config_drive=True,
    cpus=[CpuDiagnostics(id=0, time_ns=5_000)],
    nics=[NicDiagnostics(mac_address="fa:16:3e:00:00:01", rx_octets=10, tx_packets=3, tap="tap0")],
    disks=[DiskDiagnostics(read_bytes=7, write_requests=2, target="vda")],
)


@pytest.fixture
@derived
def operator(people: People) -> Api:
    return Api(people.operator, **NEWEST)


def test_the_shape_of_all_hypervisors(
    api: Api, operator: Api, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setattr(calls, "call", lambda *_, **__: DIAGNOSTICS)
    shown = operator.get(f"{V21}/servers/{server}/diagnostics").json()
    assert shown == {
        "state": "running",
        "driver": "libvirt",
        "hypervisor": "qemu",
        "hypervisor_os": "linux",
        "uptime": 61,
        "config_drive": True,
        "num_cpus": 1,
        "num_nics": 1,
        "num_disks": 1,
        "memory_details": {"maximum": 128, "used": 70},
        "cpu_details": [{"id": 0, "time": 5_000, "utilisation": None}],
        "nic_details": [
            {
                "mac_address": "fa:16:3e:00:00:01",
                "rx_octets": 10,
                "rx_errors": None,
                "rx_drop": None,
                "rx_packets": None,
                "rx_rate": None,
                "tx_octets": None,
                "tx_errors": None,
                "tx_drop": None,
                "tx_packets": 3,
                "tx_rate": None,
            }
        ],
        "disk_details": [
            {
                "read_bytes": 7,
                "read_requests": None,
                "write_bytes": None,
                "write_requests": 2,
                "errors_count": None,
            }
        ],
    }


def test_a_driver_that_the_reference_does_not_know_is_not_named(
    api: Api, operator: Api, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setattr(calls, "call", lambda *_, **__: replace(DIAGNOSTICS, driver="fake"))
    assert operator.get(f"{V21}/servers/{server}/diagnostics").json()["driver"] == "libvirt"


def test_libvirts_own_names_before_2_48(
    api: Api, people: People, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setattr(calls, "call", lambda *_, **__: DIAGNOSTICS)
    old = Api(people.operator, **{"OpenStack-API-Version": "compute 2.47"})
    shown = old.get(f"{V21}/servers/{server}/diagnostics").json()
    assert (shown["cpu0_time"], shown["vda_read"], shown["vda_write_req"]) == (5_000, 7, 2)
    assert (shown["tap0_rx"], shown["tap0_tx_packets"], shown["memory"]) == (10, 3, 128 * 1024)


def test_a_guest_that_is_not_there_is_a_conflict(
    api: Api, operator: Api, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setattr(calls, "call", lambda *_, **__: CallError(code="not_found", message="There is no such guest."))
    assert operator.get(f"{V21}/servers/{server}/diagnostics").status_code == 409
    api.delete(f"{V21}/servers/{server}")
    assert operator.get(f"{V21}/servers/{server}/diagnostics").status_code == 409
    assert api.get(f"{V21}/servers/{server}/diagnostics").status_code == 403
