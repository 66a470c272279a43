"""Programs in a guest, run by its guest agent (``guest-exec``). Output is the guest's, and untrusted."""

import base64
import binascii
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import libvirt_qemu

from compute_agent.virt.errors import GuestDiskError, GuestProgramsDisabledError

NEEDED = ("guest-exec", "guest-exec-status")
ANSWER_SECONDS = 5
"""Seconds in which the guest agent has to answer one request."""
MOST_OUTPUT = 65_536
"""Bytes of output that are read."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended: its exit status, and its output."""

    status: int
    output: str
    error: str


def run(
    domain: Any,
    program: str,
    arguments: Sequence[str],
    timeout: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Finished:
    """Run a program of the guest's shell, and wait up to ``timeout`` seconds for its end.

    Raises GuestProgramsDisabledError if the guest agent runs no programs, GuestDiskError after the timeout, when the
    program continues, and libvirtError.
    """
    deadline = clock() + timeout
    _check_enabled(_ask(domain, "guest-info"))
    begun = _ask(
        domain,
        "guest-exec",
        {"path": "/bin/sh", "arg": ["-c", program, "novella", *arguments], "capture-output": True},
    )
    wait = FIRST_PAUSE
    while True:
        state = _ask(domain, "guest-exec-status", {"pid": int(begun["pid"])})
        if state.get("exited"):
            # A program that was killed by a signal has no exit code.
            return Finished(int(state.get("exitcode", 1)), _text(state, "out-data"), _text(state, "err-data"))
        if clock() + wait > deadline:
            raise GuestDiskError("The guest has not finished in time. It may still do it.")
        pause(wait)
        wait = min(2 * wait, LONGEST_PAUSE)


def _check_enabled(info: Any) -> None:
    enabled = {each.get("name") for each in info.get("supported_commands", ()) if each.get("enabled")}
    if not enabled.issuperset(NEEDED):
        raise GuestProgramsDisabledError(
            "The guest agent does not run programs: guest-exec is disabled in its configuration."
        )


def _ask(domain: Any, command: str, arguments: dict[str, Any] | None = None) -> Any:
    words = json.dumps({"execute": command, **({"arguments": arguments} if arguments else {})})
    return json.loads(libvirt_qemu.qemuAgentCommand(domain, words, ANSWER_SECONDS, 0))["return"]


def _text(state: Any, name: str) -> str:
    encoded = str(state.get(name, ""))[: MOST_OUTPUT * 4 // 3 // 4 * 4]
    try:
        return base64.b64decode(encoded).decode(errors="replace")
    except binascii.Error:
        return ""
