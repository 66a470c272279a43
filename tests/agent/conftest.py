"""What the agent's tests share."""

from __future__ import annotations

import pytest

from compute_agent.engine import retry


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is tried again be tried again at once."""
    monkeypatch.setattr(retry, "PAUSE", 0.001)
    monkeypatch.setattr(retry, "PAUSE_MAX", 0.01)
