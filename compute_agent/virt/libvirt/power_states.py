"""Power states: conversion of libvirt's states into Nova's, and the latest state of each guest, with waiting for
changes.
"""

import threading
import time
from collections.abc import Collection

import libvirt

from compute_agent.contract.power import PowerState

_STATES = {
    libvirt.VIR_DOMAIN_NOSTATE: PowerState.NOSTATE,
    libvirt.VIR_DOMAIN_RUNNING: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: PowerState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_SHUTOFF: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_CRASHED: PowerState.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: PowerState.SUSPENDED,
}
_EVENTS = {
    libvirt.VIR_DOMAIN_EVENT_STARTED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_EVENT_RESUMED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED: PowerState.PAUSED,
    libvirt.VIR_DOMAIN_EVENT_STOPPED: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED: PowerState.SUSPENDED,
    libvirt.VIR_DOMAIN_EVENT_CRASHED: PowerState.CRASHED,
}
_ON = frozenset({PowerState.RUNNING, PowerState.PAUSED})
_DIED_EVENTS = frozenset({libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED})
_DIED_REASONS = frozenset({libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, libvirt.VIR_DOMAIN_SHUTOFF_FAILED})


def from_state(state: int, reason: int) -> PowerState:
    """Convert the result of ``virDomainGetState``. A guest whose QEMU died has crashed."""
    if state == libvirt.VIR_DOMAIN_SHUTOFF and reason in _DIED_REASONS:
        return PowerState.CRASHED
    return _STATES.get(state, PowerState.NOSTATE)


def from_event(event: int, detail: int) -> PowerState | None:
    """Convert a lifecycle event; None if it does not change the power state."""
    if event == libvirt.VIR_DOMAIN_EVENT_STOPPED and detail in _DIED_EVENTS:
        return PowerState.CRASHED
    return _EVENTS.get(event)


class PowerStates:
    """The latest power state of every guest, written by the event thread; other threads wait for changes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._states: dict[str, PowerState] = {}
        self._since: dict[str, float] = {}

    def know(self, uuid: str, state: PowerState) -> bool:
        """Record the latest state of a guest; return whether it changed."""
        with self._changed:
            changed = self._states.get(uuid) != state
            if state not in _ON:
                self._since.pop(uuid, None)
            elif self._states.get(uuid) not in _ON:
                self._since[uuid] = time.time()
            self._states[uuid] = state
            self._changed.notify_all()
            return changed

    def knows(self, uuid: str) -> bool:
        """Return whether the guest is known."""
        return uuid in self._states

    def known(self) -> list[str]:
        """List the guests that are known."""
        with self._changed:
            return list(self._states)

    def running_since(self, uuid: str) -> float | None:
        """Return the time of the guest's power-on, in Unix seconds; None if it is off."""
        with self._changed:
            return self._since.get(uuid)

    def forget(self, uuid: str) -> None:
        with self._changed:
            self._states.pop(uuid, None)
            self._since.pop(uuid, None)
            self._changed.notify_all()

    def wait(self, uuid: str, states: Collection[PowerState], timeout: float) -> PowerState | None:
        """Wait at most ``timeout`` seconds until the guest is in one of these ``states``. Return its state; None
        if it is not known.
        """
        with self._changed:
            self._changed.wait_for(lambda: uuid not in self._states or self._states[uuid] in states, timeout)
            return self._states.get(uuid)
