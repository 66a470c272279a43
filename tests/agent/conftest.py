"""What the agent's tests share."""

from __future__ import annotations

import pytest

from compute_agent.engine import context, retry, runner


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is tried again be tried again at once."""
    monkeypatch.setattr(retry, "PAUSE", 0.001)
    monkeypatch.setattr(retry, "PAUSE_MAX", 0.01)


@pytest.fixture(autouse=True)
def _announced_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no step and no command be announced because the machine is slow; a test about that sets its own seconds."""
    monkeypatch.setattr(context, "WATCHABLE", 600.0)
    monkeypatch.setattr(runner, "BEGUN_AFTER", 600.0)
