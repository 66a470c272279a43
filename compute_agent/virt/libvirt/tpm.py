"""Emulated TPMs of guests: their encrypted state in the guest's directory, and swtpm, which the agent starts before
QEMU.

The state is owned by another account than QEMU's, and its key by root: QEMU cannot read the state, and a copy of the
guest's directory does not contain the key. swtpm exits when QEMU closes its connection.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from socket import AF_UNIX, socket

from compute_agent.contract.firmware_state import FILE_NAME
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.libvirt import firmware
from compute_agent.virt.libvirt.account import Account
from compute_agent.virt.processes import processes
from compute_agent.virt.processes.programs import SYSTEM_PATH
from compute_agent.virt.processes.rights import Rights
from compute_agent.virt.processes.storage_account import StorageAccount

PROGRAM = "swtpm"
NEEDED = (PROGRAM, "swtpm_setup", "swtpm_ioctl")
"""Programs without which libvirt accepts no TPM, not even one that the agent starts."""
PID_FILE, LOG, STATE = "pid", "log", "state"
START_SECONDS = 20.0


def installed() -> bool:
    """Return whether this host can emulate TPMs."""
    return all(shutil.which(program, path=SYSTEM_PATH) for program in NEEDED)


@dataclass(frozen=True)
class Tpm:
    """The TPM of one guest."""

    folder: Path
    """Its state and the log of swtpm."""
    key: Path
    """root's file with the passphrase of the state."""
    control: Path
    """The socket for QEMU."""
    account: StorageAccount | None
    """Account of swtpm; None: root."""

    def make(self) -> None:
        """Create the directory and the key of the TPM, unless they exist. swtpm creates the TPM itself at its first
        start.

        Raises RetryableHostError.
        """
        try:
            if not self.key.exists():
                self._write_key(secrets.token_hex(32))
            self.folder.mkdir(exist_ok=True)
            self.folder.chmod(0o711)
            (self.folder / STATE).mkdir(mode=0o700, exist_ok=True)
            self._change_owner(self.folder / STATE, 0o700)
        except OSError as error:
            raise RetryableHostError("The host could not create the guest's TPM.", detail=str(error)) from error

    def _write_key(self, passphrase: str) -> None:
        self.key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self.key.with_suffix(".part")
        part.write_text(passphrase)
        part.chmod(0o600)
        part.replace(self.key)

    def read(self) -> dict[str, bytes]:
        """Return the encrypted files of the state, after swtpm has ended. Raises OSError, UnsupportedError."""
        pid = processes.read_pid(self.folder / PID_FILE)
        if pid is not None and processes.is_ours(pid, [self.folder]):
            processes.ended(pid, processes.WAIT_SECONDS)  # it ends itself, as QEMU has closed its connection
        self.end()
        result = {}
        for path in sorted((self.folder / STATE).iterdir()):
            if FILE_NAME.fullmatch(path.name):
                result[path.name] = firmware.read(path)
        return result

    def restore(self, files: Mapping[str, bytes], passphrase: str) -> None:
        """Replace state and key by those of another host.

        Raises RetryableHostError.
        """
        self.end()
        try:
            self._write_key(passphrase)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.make()
            for name, content in files.items():
                path = self.folder / STATE / name
                path.write_bytes(content)
                path.chmod(0o600)
                self._change_owner(path, 0o600)
        except OSError as error:
            raise RetryableHostError("The host has no space for the guest's TPM.", detail=str(error)) from error

    def start(self, version: str, guest: Account) -> None:
        """Start swtpm for a QEMU that runs under the account ``guest``. An earlier swtpm whose guest never started is
        ended.

        Raises RetryableHostError.
        """
        self.end()
        pid_file, state = self.folder / PID_FILE, self.folder / STATE
        pid_file.unlink(missing_ok=True)
        pid_file.touch(mode=0o600)
        self._change_owner(pid_file, 0o600)
        words = [*Rights(self.account, [state, pid_file]).command, PROGRAM, "socket", "--terminate", "--daemon"]
        words += ["--tpm2"] if version == "2.0" else []
        passphrase, write = os.pipe()
        try:
            with self._listening(guest) as control, (self.folder / LOG).open("wb") as output:
                os.write(write, self.key.read_bytes())
                os.close(write)
                words += ["--tpmstate", f"dir={state},mode=0600", "--pid", f"file={pid_file}"]
                words += ["--ctrl", f"type=unixio,fd={control.fileno()}"]
                words += ["--key", f"pwdfd={passphrase},mode=aes-256-cbc,kdf=pbkdf2"]
                done = subprocess.run(  # noqa: S603
                    words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", timeout=START_SECONDS,
                    env={"PATH": SYSTEM_PATH, "LC_ALL": "C"}, pass_fds=(passphrase, control.fileno()), check=False,
                )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RetryableHostError("The guest's TPM does not start.", detail=str(error)) from error
        finally:
            os.close(passphrase)
        if done.returncode != 0:
            log_end = (self.folder / LOG).read_text(errors="replace")[-500:]
            raise RetryableHostError("The guest's TPM does not start.", detail=log_end)

    def end(self) -> None:
        """End swtpm if it runs."""
        pid = processes.read_pid(self.folder / PID_FILE)
        if pid is not None and processes.is_ours(pid, [self.folder]):
            processes.kill(pid)

    def remove(self) -> None:
        """Delete the key, so that the state cannot be read. The state itself is deleted with the guest's directory."""
        self.end()
        self.key.unlink(missing_ok=True)

    def _change_owner(self, path: Path, mode: int) -> None:
        if self.account is not None:
            self.account.change_owner(path, mode)

    @contextlib.contextmanager
    def _listening(self, guest: Account) -> Iterator[socket]:
        self.control.unlink(missing_ok=True)
        with socket(AF_UNIX) as made:
            made.bind(str(self.control))
            guest.change_owner(self.control, 0o600)
            made.listen(1)
            yield made
