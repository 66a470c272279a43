"""The set-up tools run as a person runs them: as programs, on folders of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.one_machine import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout() -> Path:
    return CHECKOUT


@pytest.fixture
def up(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Call ``bin/up`` with arguments; for calls that end before any service starts."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [CHECKOUT / "bin" / "up", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if not name.startswith("NOVELLA_")},
            check=False,
        )

    return call
