"""Certificates of hosts. With them a guest's QEMU and a volume's storage daemon on another host authenticate each
other.

The portal signs them. It sends ``RenewCertificate`` if a host's audit reports that certificates are missing or
outdated, so renewals depend neither on clocks nor on restarts. A host generates two keys, which never leave it: a
server's key, and a client's key, which guests' QEMU can read. The CN of both certificates is the host's id.
"""

import hashlib

from compute_agent.contract.base import Message

DOMAIN = "host.novella"


def tls_hostname(host_id: str) -> str:
    """Return the DNS name in a host's server certificate. The name is used instead of an address, because addresses may
    change.
    """
    return f"{host_id}.{DOMAIN}"


def digest_of(ca: str, server: str, client: str) -> str:
    """Return the digest of a host's certificates: SHA-256 of the three files, hex."""
    return hashlib.sha256("\0".join((ca, server, client)).encode()).hexdigest()


class RenewCertificate(Message, frozen=True):
    """Ask the host for certificate requests with its keys."""


class CertificateRequest(Message, frozen=True):
    """Two certificate requests (PKCS #10, PEM). The portal uses only their keys, and determines all other fields
    itself.
    """

    server: str
    client: str


class Certificate(Message, frozen=True):
    """The signed certificates, PEM. ``ca`` may contain several, all of which are trusted while an authority is being
    replaced.
    """

    host_id: str
    server: str
    client: str
    ca: str
