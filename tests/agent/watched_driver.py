"""The fake hypervisor in a test's hands: what it keeps can be seen, and what nobody ordered can happen to it."""

from __future__ import annotations

from typing import Any

from compute_agent.contract.messages import Leftover
from compute_agent.contract.power import PowerState
from compute_agent.virt.fake.driver import FakeDriver


class WatchedDriver(FakeDriver):
    """A fake driver with guests that crash or are removed by hand."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.foreign: set[str] = set()
        """Names of domains that somebody else made."""

    def leftovers(self) -> list[Leftover]:
        return super().leftovers() + [Leftover(kind="foreign_domain", name=name) for name in sorted(self.foreign)]

    def lose_domain(self, uuid: str) -> None:
        """Lose the domain and keep the disks, as when somebody removes a guest by hand."""
        with self._changed:
            self._state.guests.pop(uuid, None)
            self._write(uuid)

    def crash(self, uuid: str) -> None:
        """Let the guest die by itself, as a panic or a dead QEMU process would."""
        with self._changed:
            self._power(self._guest(uuid), PowerState.CRASHED)
        self._notify(uuid, PowerState.CRASHED)

    def kept(self) -> dict[str, set[str]]:
        """Return everything this hypervisor keeps, by kind: uuids of ``disks``, ``seeds`` and ``domains``."""
        with self._changed:
            return {
                "disks": set(self._state.disks),
                "seeds": set(self._state.seeds),
                "domains": set(self._state.guests),
            }

    def rescued(self) -> set[str]:
        """Return the uuids of the guests that run from another disk than their own."""
        with self._changed:
            return {uuid for uuid, guest in self._state.guests.items() if guest.rescued}
