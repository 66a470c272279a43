"""The power states of the guests, and reports of changes that no command caused."""

from collections.abc import Callable, Iterable

from compute_agent.contract.messages import SERVER
from compute_agent.contract.power import PowerState
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.subjects import Subject
from compute_agent.virt.driver import Guest


class PowerTracker:
    """The attempt and the last reported power state of every guest. For the event loop's thread only."""

    def __init__(self, outbox: Outbox, busy: Callable[[str], bool]) -> None:
        """``busy`` returns whether a command for the instance is running. A change of the state during a command is
        reported after the command.
        """
        self._outbox = outbox
        self._busy = busy
        self._guests: dict[str, Guest] = {}
        self._unreported: dict[str, PowerState] = {}
        self._clock = 0
        self._known_since: dict[str, int] = {}

    def __contains__(self, uuid: str) -> bool:
        """Return whether the instance has a guest here."""
        return uuid in self._guests

    def load(self, guests: Iterable[Guest]) -> None:
        """Load the guests of the hypervisor. The portal receives their states in ``Hello``."""
        self._guests = {guest.uuid: guest for guest in guests}

    def reported(self, guest: Guest) -> None:
        """Record the state that is reported with a command's end."""
        self._guests[guest.uuid] = guest
        self._touch(guest.uuid)

    def forget(self, uuid: str) -> None:
        """Forget a guest that a command has removed."""
        self._guests.pop(uuid, None)
        self._known_since.pop(uuid, None)

    def power_changed(self, uuid: str, state: PowerState) -> None:
        """Report a change that the hypervisor announces, or record it while a command is running."""
        if self._busy(uuid):
            self._unreported[uuid] = state
        else:
            self._report(uuid, state)

    def settle(self, uuid: str) -> None:
        """After a command, report a change that was announced while the command was running."""
        state = self._unreported.pop(uuid, None)
        if state is not None:
            self._report(uuid, state)

    def mark(self) -> int:
        """Return a number for ``compare`` that identifies the present moment. Call this before the list of guests is
        read from the hypervisor.
        """
        self._clock += 1
        return self._clock

    def compare(self, guests: Iterable[Guest], mark: int) -> None:
        """Report changes that the hypervisor did not announce. A guest that the hypervisor no longer has gets the state
        NOSTATE.

        Guests whose state was recorded after ``mark`` are skipped, because the list ``guests`` may be older than that
        state.
        """
        by_uuid = {guest.uuid: guest for guest in guests}
        for uuid in list(self._guests):
            if not self._busy(uuid) and self._known_since.get(uuid, 0) < mark:
                self._report(uuid, by_uuid[uuid].power_state if uuid in by_uuid else PowerState.NOSTATE)

    def _touch(self, uuid: str) -> None:
        self._known_since[uuid] = self._clock

    def _report(self, uuid: str, state: PowerState) -> None:
        guest = self._guests.get(uuid)
        if guest is None:
            return
        self._touch(uuid)
        if guest.power_state != state:
            self._guests[uuid] = Guest(uuid, guest.attempt, state)
            self._outbox.power(Subject(SERVER, uuid), guest.attempt, state)
