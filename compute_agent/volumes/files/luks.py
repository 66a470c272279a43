"""LUKS with QEMU's programs: files with the key of a volume, and the creation of headers on a busy machine."""

import base64
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from compute_agent.contract.volume import VolumeEncryption
from compute_agent.virt.processes.programs import ProgramError
from compute_agent.virt.processes.storage_account import StorageAccount
from compute_agent.volumes.errors import PoolUnavailableError

ITERATIONS = 10
"""Milliseconds of key derivation. The key is random, so a slow derivation would protect nothing."""
MEASURED_WITHIN, PAUSE = 60.0, 0.1
"""If QEMU fails to measure the speed of a busy processor: seconds for which it is called again, and seconds between two
calls.
"""
_UNMEASURED = "accurate CPU usage"
_FOLDER = "novella-key-"
"""The prefix of the names of keys' folders. It is followed by the agent's process id."""
_MEMORY = Path("/dev/shm")  # noqa: S108 (a folder is made in it for each key)


@contextlib.contextmanager
def key_file(encryption: VolumeEncryption, name: str, account: StorageAccount | None = None) -> Iterator[str]:
    """Yield QEMU's description of the secret ``name``. Its file is in memory only, and is removed after the block.

    ``account``: an account that can read the file in addition to the agent.
    """
    base64.b64decode(encryption.key, validate=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        (folder / "key").write_text(encryption.key)
        if account is not None:
            account.show(folder / "key", 0o440)
            account.show(folder, 0o710)
        yield f"secret,id={name},format=base64,file={folder / 'key'}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove the key files that killed agents have left."""
    for path in _MEMORY.glob(f"{_FOLDER}*"):
        if not Path("/proc", path.name.removeprefix(_FOLDER).partition("-")[0]).exists():
            shutil.rmtree(path, ignore_errors=True)


def make_header(make: Callable[[], object]) -> None:
    """Call the function that creates a LUKS header. Repeat it if QEMU could not measure the processor's speed.

    Raises the errors of ``make``.
    """
    until = time.monotonic() + MEASURED_WITHIN
    while True:
        try:
            make()
        except (ProgramError, PoolUnavailableError) as error:
            text = error.detail if isinstance(error, PoolUnavailableError) else str(error)
            if _UNMEASURED not in text or time.monotonic() >= until:
                raise
        else:
            return
        time.sleep(PAUSE)
