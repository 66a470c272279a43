"""The states of volumes, snapshots and servers as pushed by the cloud: polling would slow down the measured work."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from tools.bench.cloud import BenchError
from tools.bench.live import Socket

WITHIN = 120.0
ERRORS = frozenset({"error", "error_extending", "error_deleting"})


@dataclass(frozen=True)
class Seen:
    """One reported state of a record."""

    state: str
    arrived: float
    """``time.perf_counter`` of its arrival."""


class Records:
    """The reported states of a project's records, in the order of arrival."""

    def __init__(self, port: int, token: str) -> None:
        self._seen: dict[str, list[Seen]] = {}
        self._changed = threading.Condition()
        self._socket = Socket(f"ws://127.0.0.1:{port}/ws/v1/events", {"X-Auth-Token": token}, self._take)

    def _take(self, message: dict[str, Any], _: float) -> None:
        arrived, payload = time.perf_counter(), message.get("payload", {})
        if "id" not in payload:
            return
        state = "deleted" if payload.get("deleted") else payload.get("status", "")
        if "vm_state" in payload:
            state = "" if payload.get("task_state") else payload["vm_state"]
        with self._changed:
            self._seen.setdefault(payload["id"], []).append(Seen(state, arrived))
            self._changed.notify_all()

    def reached(self, key: str, state: str, after: float) -> float:
        """Return when a record was first reported in a state since ``after``. Raises BenchError."""
        with self._changed:
            self._changed.wait_for(lambda: self._find(key, {state, *ERRORS}, after) is not None, WITHIN)
            found = self._find(key, {state, *ERRORS}, after)
        if found is None or found.state != state:
            raise BenchError(f"{key} is {found.state if found else 'not reported'} instead of {state}")
        return found.arrived

    def _find(self, key: str, states: set[str], after: float) -> Seen | None:
        return next((each for each in self._seen.get(key, []) if each.arrived >= after and each.state in states), None)

    def close(self) -> None:
        self._socket.close()
