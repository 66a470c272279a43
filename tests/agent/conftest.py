"""What the agent's tests share."""

from __future__ import annotations

import pytest

from compute_agent.manager import undo


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is tried again be tried again at once."""
    monkeypatch.setattr(undo, "PAUSE", 0.001)
    monkeypatch.setattr(undo, "PAUSE_MAX", 0.01)
