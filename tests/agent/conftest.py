"""What the agent's tests share."""

from __future__ import annotations

import pytest

from compute_agent.servers import removal


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is tried again be tried again at once."""
    monkeypatch.setattr(removal, "PAUSE", 0.001)
    monkeypatch.setattr(removal, "PAUSE_MAX", 0.01)
