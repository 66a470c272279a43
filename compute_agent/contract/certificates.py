"""Certificates of hosts, with which a guest's QEMU and a volume's storage daemon on another host authenticate each
other.

The portal signs them.  It sends ``RenewCertificate`` if a host's audit reports no certificates or outdated ones, so
that clocks and restarts do not matter.  A host generates two keys, which never leave it: a server's, and a client's,
which guests' QEMU can read.  The CN of both certificates is the host's id.
"""

import hashlib

from compute_agent.contract.base import Message

DOMAIN = "host.novella"


def tls_hostname(host_id: str) -> str:
    """Return the DNS name in a host's server certificate; its addresses may change."""
    return f"{host_id}.{DOMAIN}"


def digest_of(ca: str, server: str, client: str) -> str:
    """Return the digest of a host's certificates: SHA-256 of the three files, hex."""
    return hashlib.sha256("\0".join((ca, server, client)).encode()).hexdigest()


class RenewCertificate(Message, frozen=True):
    """Request for certificate requests with the host's keys."""


class CertificateRequest(Message, frozen=True):
    """Two requests (PKCS #10, PEM); only their keys are used, the portal sets everything else in a certificate."""

    server: str
    client: str


class Certificate(Message, frozen=True):
    """The certificates, PEM.  ``ca`` may contain several: all are trusted while an authority is being replaced."""

    host_id: str
    server: str
    client: str
    ca: str
