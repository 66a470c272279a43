"""What this host knows of its guests' power, and what the portal is told when it changes without a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from compute_agent.contract.power import PowerState
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.subjects import SERVER, Subject
from compute_agent.virt.driver import Guest


class PowerTracker:
    """Attempt and last reported power state of every guest; for the event loop's thread only."""

    def __init__(self, outbox: Outbox, busy: Callable[[str], bool]) -> None:
        """``busy`` says whether a command for the instance is being carried out: then the command's own end tells the
        state.
        """
        self._outbox = outbox
        self._busy = busy
        self._guests: dict[str, Guest] = {}
        self._heard: dict[str, PowerState] = {}
        self._clock = 0
        self._known_since: dict[str, int] = {}

    def __contains__(self, uuid: str) -> bool:
        """Say whether the instance has a guest here."""
        return uuid in self._guests

    def load(self, guests: Iterable[Guest]) -> None:
        """Begin with what the hypervisor has; the portal learns it from ``Hello``."""
        self._guests = {guest.uuid: guest for guest in guests}

    def reported(self, guest: Guest) -> None:
        """Note the state that a command's end has told."""
        self._guests[guest.uuid] = guest
        self._touch(guest.uuid)

    def forget(self, uuid: str) -> None:
        """The guest was destroyed by a command."""
        self._guests.pop(uuid, None)
        self._known_since.pop(uuid, None)

    def power_changed(self, uuid: str, state: PowerState) -> None:
        """Hear of a change from the hypervisor."""
        if self._busy(uuid):
            self._heard[uuid] = state
        else:
            self._tell(uuid, state)

    def settle(self, uuid: str) -> None:
        """After a command: tell what happened since its end was told."""
        state = self._heard.pop(uuid, None)
        if state is not None:
            self._tell(uuid, state)

    def mark(self) -> int:
        """Return a mark for ``compare``, taken before the hypervisor is asked."""
        self._clock += 1
        return self._clock

    def compare(self, guests: Iterable[Guest], mark: int) -> None:
        """Tell what changed unheard; a guest that the hypervisor no longer has is in no state.

        What was learnt of a guest since ``mark`` is newer than the list, which says nothing about that guest then.
        """
        found = {guest.uuid: guest for guest in guests}
        for uuid in list(self._guests):
            if not self._busy(uuid) and self._known_since.get(uuid, 0) < mark:
                self._tell(uuid, found[uuid].power_state if uuid in found else PowerState.NOSTATE)

    def _touch(self, uuid: str) -> None:
        self._known_since[uuid] = self._clock

    def _tell(self, uuid: str, state: PowerState) -> None:
        guest = self._guests.get(uuid)
        if guest is None:
            return
        self._touch(uuid)
        if guest.power_state != state:
            self._guests[uuid] = Guest(uuid, guest.attempt, state)
            self._outbox.power(Subject(SERVER, uuid), guest.attempt, state)
