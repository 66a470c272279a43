"""Certificates of hosts for volumes on other hosts: issue, renewal, and replacement of the authority.

A running process (a guest's QEMU, a storage daemon) keeps the certificate that it started with; QEMU cannot load
another. Certificates therefore remain valid much longer than hosts keep them: for at least another ``LIFE -
RENEW_AFTER``. This is safe: a daemon admits only the host ids that it was sent (``ConnectVolumeRequest``), and a
deleted host is sent to no daemon and gets no new certificate.

An operator replaces the authority in three steps, with time between them for hosts, daemons and guests: 1. ``begin``:
hosts trust the next authority as well; 2. ``switch``: the next authority signs; 3. ``finish``: hosts no longer trust
the old authority.
"""

import hashlib
import logging
import uuid
from collections.abc import Mapping
from datetime import timedelta

from cryptography.fernet import Fernet, InvalidToken
from django.db import IntegrityError, transaction
from django.utils import timezone

from compute_agent.contract.certificates import Certificate, CertificateRequest, digest_of, tls_hostname
from provisioning.common.errors import ConflictError
from provisioning.hosts.authority import Authority, new_authority
from provisioning.hosts.models import CertificateAuthority, Host, HostCertificate
from provisioning.identity.encryption import keys
from provisioning.identity.encryption.encrypted import renewed

log = logging.getLogger(__name__)

LIFE = timedelta(days=730)
RENEW_AFTER = timedelta(days=30)
NEXT, CURRENT, OLD = "next", "current", "old"
"""States of an authority; at most one authority is in each."""


def due(host_id: uuid.UUID, has: str | None) -> bool:
    """Whether to ask a host for certificate requests; ``has`` is the digest in its audit, None if it needs no
    certificates.
    """
    if has is None:
        return False
    kept = HostCertificate.objects.filter(host_id=host_id).first()
    if kept is None or kept.digest != has or kept.issued_at < timezone.now() - RENEW_AFTER:
        return True
    return kept.trusted != _digest(trusted())


def issue(host_id: uuid.UUID, request: CertificateRequest) -> Certificate | None:
    """Sign a host's certificate requests; the subject is always the host's id. None if the host does not exist.

    Raises InvalidInputError for invalid requests, InvalidToken if the authority's key cannot be decrypted.
    """
    now = timezone.now()
    current = _current()
    authority = Authority(current.certificate, keys.CREDENTIALS.current().decrypt(current.key.encode()).decode())
    name = str(host_id)
    server = authority.sign(request.server, name, server_name=tls_hostname(name), now=now, life=LIFE)
    client = authority.sign(request.client, name, now=now, life=LIFE)
    ca = trusted()
    ends_at = min(now + LIFE, current.ends_at)
    values = {"digest": digest_of(ca, server, client), "trusted": _digest(ca), "issued_at": now, "ends_at": ends_at}
    with transaction.atomic():
        if not Host.objects.select_for_update().filter(id=host_id).exists():
            return None
        HostCertificate.objects.update_or_create(host_id=host_id, defaults=values)
    log.info("Host %s has certificates until %s.", host_id, f"{ends_at:%Y-%m-%d}")
    return Certificate(host_id=name, server=server, client=client, ca=ca)


def trusted() -> str:
    """Return the PEM certificates of all authorities, the signing one first; empty if there is no authority yet."""
    order = {CURRENT: 0, NEXT: 1, OLD: 2}
    rows = CertificateAuthority.objects.values_list("state", "certificate")
    return "".join(certificate for _, certificate in sorted(rows, key=lambda row: order[row[0]]))


def begin() -> None:
    """Create the next authority, which hosts trust in addition to the current one.  Raises ConflictError."""
    _current()
    if CertificateAuthority.objects.filter(state__in=[NEXT, OLD]).exists():
        raise ConflictError("The authority is already being replaced.")
    _make(NEXT)


def switch() -> list[str]:
    """Let the next authority sign.  Returns the names of hosts that did not trust it when they were last connected.

    Raises ConflictError, without changes, if there is no next authority or if one of these hosts is connected.
    """
    with transaction.atomic():
        if not CertificateAuthority.objects.filter(state=NEXT).exists():
            raise ConflictError("There is no next authority: run begin first.")
        behind = hosts_behind()
        if Host.objects.filter(name__in=behind, connected=True).exists():
            raise ConflictError(f"Wait for these hosts, which do not trust the next authority: {', '.join(behind)}.")
        _move(CURRENT, OLD)
        _move(NEXT, CURRENT)
    return behind


def finish() -> None:
    """Stop trusting the old authority.  Raises ConflictError if there is none, or if a host still depends on it."""
    with transaction.atomic():
        if not CertificateAuthority.objects.filter(state=OLD).exists():
            raise ConflictError("There is no old authority.")
        behind = hosts_behind()
        if behind:
            raise ConflictError(f"These hosts still have certificates of the old authority: {', '.join(behind)}.")
        CertificateAuthority.objects.filter(state=OLD).delete()


def hosts_behind() -> list[str]:
    """Return the names of hosts whose certificates were issued with a different set of trusted authorities than the
    current one.
    """
    rows = HostCertificate.objects.exclude(trusted=_digest(trusted())).order_by("host__name")
    return list(rows.values_list("host__name", flat=True))


def authorities() -> Mapping[str, CertificateAuthority]:
    """Return the authorities by their states."""
    return {each.state: each for each in CertificateAuthority.objects.all()}


def encrypt_again(newest: Fernet) -> tuple[int, list[str]]:
    """Encrypt the private keys of all authorities again with ``newest``.

    Returns the number of changed authorities, and the ids of authorities whose private key no key decrypts.
    """
    changed, lost = 0, []
    for each in CertificateAuthority.objects.all():
        try:
            fresh = renewed(each.key, newest)
        except InvalidToken:
            lost.append(str(each.id))
            continue
        if fresh != each.key:
            changed += CertificateAuthority.objects.filter(id=each.id, key=each.key).update(key=fresh)
    return changed, lost


def _current() -> CertificateAuthority:
    """Return the signing authority; the first call creates it."""
    certificate_authority = CertificateAuthority.objects.filter(state=CURRENT).first()
    if certificate_authority is None:
        _make(CURRENT)
        certificate_authority = CertificateAuthority.objects.get(state=CURRENT)
    return certificate_authority


def _make(state: str) -> None:
    """Create an authority in this state, unless another process has just created one."""
    certificate, key, ends_at = new_authority(timezone.now())
    sealed = keys.CREDENTIALS.current().encrypt(key.encode()).decode()
    try:
        with transaction.atomic():
            CertificateAuthority.objects.create(state=state, certificate=certificate, key=sealed, ends_at=ends_at)
    except IntegrityError:
        log.info("Another process has created the authority of hosts.")


def _move(state: str, to: str) -> None:
    CertificateAuthority.objects.filter(state=state).update(state=to)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
