"""Network namespaces that a test run left behind when it was killed."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from compute_agent.network.kernel import namespace
from up.switch import kill

OF_A_TEST = re.compile(r"nv[a-z]-?(\d+)(?:-.*)?")
"""``nv``, a letter for the kind of test, the number of its process, and what it likes behind a hyphen."""


def sweep() -> list[str]:
    """End and remove what namespaces there are of tests whose process is gone; return their names."""
    names = [name for name in namespace.listed("nv") if (match := OF_A_TEST.fullmatch(name)) and _gone(match[1])]
    if names:
        kill(names)
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # another worker sweeps, too
            namespace.remove(name)
    return names


def _gone(process: str) -> bool:
    return not Path(f"/proc/{process}").exists()
