"""The host's certificates, in a directory with the file names that QEMU's ``tls-creds-x509`` expects.

The keys are created once, on this host, and never leave it. Only the certificates are renewed, each atomically, so that
a reader always finds a key and a certificate that match. A guest's QEMU reads the files when it opens a volume, a
storage daemon when it starts. Renewed files do not affect open connections.
"""

import os
from pathlib import Path

from compute_agent.contract.certificates import Certificate, CertificateRequest, digest_of, tls_hostname
from compute_agent.virt.processes.programs import run_program

FOLDER = "pki"
"""Directory below the state directory."""
SERVER, CLIENT = "server", "client"
CA = "ca-cert.pem"
HOST_ID = "host-id"


class HostCertificates:
    """The directory and its files. Methods raise OSError, ProgramError; they block."""

    def __init__(self, state_dir: Path) -> None:
        """Use the state directory of the host."""
        self.folder = state_dir / FOLDER

    @property
    def tls_hostname(self) -> str:
        """The name in the host's server certificate; empty if there is no certificate."""
        host_id = self._read(HOST_ID)
        return tls_hostname(host_id) if host_id else ""

    @property
    def complete(self) -> bool:
        """Whether volumes can be opened and exported over TLS."""
        return bool(self.digest())

    def digest(self) -> str:
        """Return the digest of all certificates (``ResourceAudit.certificates``); empty if one is missing."""
        files = [self._read(name) for name in (CA, f"{SERVER}-cert.pem", f"{CLIENT}-cert.pem")]
        keys = [self._key(SERVER), self._key(CLIENT)]
        if not all(files) or not all(key.is_file() for key in keys) or not self._read(HOST_ID):
            return ""
        self._show_to_guests(self._key(CLIENT))
        return digest_of(*files)

    def request(self) -> CertificateRequest:
        """Return certificate requests for the keys, which are created if they do not exist."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return CertificateRequest(server=self._request(SERVER), client=self._request(CLIENT))

    def store(self, certificate: Certificate) -> None:
        """Store the certificates signed by the portal.

        The CA file is written first, because it is valid for the previous and the new certificates.
        """
        self._write(self.folder / CA, certificate.ca.encode(), 0o644)
        self._write(self.folder / f"{SERVER}-cert.pem", certificate.server.encode(), 0o644)
        self._write(self.folder / f"{CLIENT}-cert.pem", certificate.client.encode(), 0o644)
        self._write(self.folder / HOST_ID, certificate.host_id.encode(), 0o644)
        self._show_to_guests(self._key(CLIENT))

    def _request(self, role: str) -> str:
        key = self._key(role)
        if not key.is_file():
            made = run_program("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
            self._write(key, made, 0o600)
        return run_program("openssl", "req", "-new", "-key", str(key), "-subj", f"/CN={role}").decode()

    def _key(self, role: str) -> Path:
        return self.folder / f"{role}-key.pem"

    def _show_to_guests(self, key: Path) -> None:
        """Allow QEMU to read the key: set the key's group to the directory's group, which is that of the guests'
        account.
        """
        group = self.folder.stat().st_gid
        about = key.stat()
        if os.geteuid() == 0 and (about.st_gid != group or about.st_mode & 0o777 != 0o640):
            os.chown(key, 0, group)
            key.chmod(0o640)

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text()
        except FileNotFoundError:
            return ""

    @staticmethod
    def _write(path: Path, content: bytes, mode: int) -> None:
        """Replace a file so that a crash leaves the old one or the new one."""
        fresh = path.with_suffix(".new")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
