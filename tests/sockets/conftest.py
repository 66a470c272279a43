"""Sockets against the real routing."""

import pytest

from portal.sockets import guest_logs, joined
from tests.support.sockets import WITHIN, open_socket

__all__ = ["open_socket"]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts and windows may take their time on a busy machine."""
    monkeypatch.setattr(joined, "LEAVE_WITHIN", WITHIN)
    for module in (joined, guest_logs):
        monkeypatch.setattr(module, "ANSWER_WITHIN", WITHIN)
        monkeypatch.setattr(module, "DIAL_WITHIN", WITHIN)
