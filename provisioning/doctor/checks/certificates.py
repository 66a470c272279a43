"""Certificates with which hosts share volumes: late renewals, and the expiry of the authority."""

from collections.abc import Iterator

from cryptography.fernet import InvalidToken
from django.utils import timezone

from provisioning.doctor.finding import Finding, check
from provisioning.hosts.certificates import CURRENT, LIFE, RENEW_AFTER, authorities
from provisioning.hosts.models import HostCertificate
from provisioning.hosts.selectors import alive
from provisioning.identity.encryption import keys


@check("certificates", at_once=True)
def certificates_that_are_not_renewed() -> Iterator[Finding]:
    """Find hosts that are up but whose certificates have expired or are overdue for renewal."""
    now = timezone.now()
    late = HostCertificate.objects.filter(alive(now, "host__"), issued_at__lt=now - 1.2 * RENEW_AFTER)
    for each in late.select_related("host").order_by("host__name"):
        over = each.ends_at <= now
        words = "expired on" if over else "are overdue for renewal and expire on"
        sentence = f"Its certificates for volumes of other hosts {words} {each.ends_at:%Y-%m-%d}."
        yield Finding("error" if over else "warning", f"host {each.host.name}", sentence, evidence=over)


@check("certificate_authority", at_once=True)
def authority_of_hosts() -> Iterator[Finding]:
    """Find a certificate authority that expires soon, or whose private key cannot be decrypted."""
    current = authorities().get(CURRENT)
    if current is None:
        return
    subject = "authority of hosts"
    if current.ends_at < timezone.now() + LIFE:
        sentence = (
            f"It expires on {current.ends_at:%Y-%m-%d}, and so do all its certificates: create its successor"
            " (manage.py rotate_host_authority)."
        )
        yield Finding("warning", subject, sentence, evidence="ends")
    try:
        keys.CREDENTIALS.current().decrypt(current.key.encode())
    except InvalidToken:
        sentence = "No credential key decrypts its private key: hosts get no certificates for volumes of other hosts."
        yield Finding("error", subject, sentence, evidence="key")
