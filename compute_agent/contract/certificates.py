"""Certificates of hosts: with them a guest's QEMU and the daemon that exports a volume on another host know each other.

The portal signs them.  It asks for requests (``RenewCertificate``) when a host's audit says that it has none, or not
those that it should have, so that neither side's clock and no restart counts for anything.  A host makes two keys,
which stay on it: one to serve with, one to be a client with, which guests' QEMU may read.  The CN of both certificates
is the host's id.
"""

import hashlib

from compute_agent.contract.base import Message

DOMAIN = "host.novella"


def tls_hostname(host_id: str) -> str:
    """Return the DNS name in the certificate a host serves with; its addresses may change."""
    return f"{host_id}.{DOMAIN}"


def digest_of(ca: str, server: str, client: str) -> str:
    """Return what stands for all that a host has: SHA-256 of the three files, hex."""
    return hashlib.sha256("\0".join((ca, server, client)).encode()).hexdigest()


class RenewCertificate(Message, frozen=True):
    """Send requests for certificates, by the keys that you have."""


class CertificateRequest(Message, frozen=True):
    """Two requests (PKCS #10, PEM); only their keys count, the portal decides about all the rest of a certificate."""

    server: str
    client: str


class Certificate(Message, frozen=True):
    """The certificates, PEM.  ``ca`` may hold several: each is trusted, while one takes the place of another."""

    host_id: str
    server: str
    client: str
    ca: str
