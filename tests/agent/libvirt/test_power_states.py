"""Power states out of libvirt's numbers, and waiting for them."""

from __future__ import annotations

import threading

import libvirt
import pytest

from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import HypervisorUnavailableError, InstanceNotFoundError, RetryableHostError
from compute_agent.virt.libvirt.connection import Connection, host_error
from compute_agent.virt.libvirt.power_states import PowerStates, from_event, from_state


@pytest.mark.parametrize(
    ("state", "reason", "power"),
    [
        (libvirt.VIR_DOMAIN_RUNNING, 0, PowerState.RUNNING),
        (libvirt.VIR_DOMAIN_BLOCKED, 0, PowerState.RUNNING),
        (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR, PowerState.PAUSED),
        (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED, PowerState.SHUTDOWN),
        (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, PowerState.CRASHED),
        (libvirt.VIR_DOMAIN_PMSUSPENDED, 0, PowerState.SUSPENDED),
        (99, 0, PowerState.NOSTATE),
    ],
)
def test_states_have_novas_numbers(state: int, reason: int, power: PowerState) -> None:
    assert from_state(state, reason) is power


@pytest.mark.parametrize(
    ("event", "detail", "power"),
    [
        (libvirt.VIR_DOMAIN_EVENT_STARTED, 0, PowerState.RUNNING),
        (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN, PowerState.SHUTDOWN),
        (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED, PowerState.CRASHED),
        (libvirt.VIR_DOMAIN_EVENT_DEFINED, 0, None),
        (libvirt.VIR_DOMAIN_EVENT_SHUTDOWN, 0, None),
    ],
)
def test_events_change_power_or_nothing(event: int, detail: int, power: PowerState | None) -> None:
    assert from_event(event, detail) is power


def test_a_waiter_is_woken_by_the_event() -> None:
    board = PowerStates()
    board.know("a", PowerState.SHUTDOWN)
    timer = threading.Timer(0.05, board.know, ("a", PowerState.RUNNING))
    timer.start()
    assert board.wait("a", {PowerState.RUNNING}, 10.0) is PowerState.RUNNING
    timer.join()


def test_a_waiter_for_a_guest_that_goes_is_let_go() -> None:
    board = PowerStates()
    board.know("a", PowerState.RUNNING)
    timer = threading.Timer(0.05, board.forget, ("a",))
    timer.start()
    assert board.wait("a", {PowerState.SHUTDOWN}, 10.0) is None
    timer.join()


def test_the_same_state_twice_is_no_news() -> None:
    board = PowerStates()
    assert board.know("a", PowerState.RUNNING)
    assert not board.know("a", PowerState.RUNNING)


def test_errors_of_libvirt_become_the_hosts() -> None:
    connection = libvirt.open("test:///default")
    with pytest.raises(libvirt.libvirtError) as caught:
        connection.lookupByUUIDString("0c000000-0000-4000-8000-00000000beef")
    assert isinstance(host_error(caught.value, "find the guest"), InstanceNotFoundError)
    with pytest.raises(libvirt.libvirtError) as caught:
        connection.defineXML("<domain/>")
    error = host_error(caught.value, "define the guest")
    assert type(error) is RetryableHostError
    assert error.message == "The hypervisor could not define the guest."
    assert error.detail
    connection.close()


def test_a_hypervisor_that_is_not_there_is_reported_as_unavailable() -> None:
    connection = Connection("qemu+unix:///system?socket=/nonexistent/sock", lambda *_: None, lambda: None)
    with pytest.raises(HypervisorUnavailableError, match="does not answer"):
        connection.open()
    connection.close()
    with pytest.raises(HypervisorUnavailableError, match="not connected"):
        connection.get()
