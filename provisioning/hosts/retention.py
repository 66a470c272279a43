"""Retention of the records of hosts."""

from datetime import datetime

from django.db.models import Q, QuerySet

from provisioning.hosts.models import JoinToken
from provisioning.jobs.retention import Purged


def _join_tokens(before: datetime) -> QuerySet[JoinToken]:
    return JoinToken.objects.filter(Q(used_at__lt=before) | Q(expires_at__lt=before))


PURGED = (Purged("join tokens", JoinToken, _join_tokens),)
UNPURGED = {
    "hosts.Host": "Created and deleted by operators.",
    "hosts.CertificateAuthority": "Deleted when the next one has replaced it.",
    "hosts.HostCertificate": "One for each host.",
    "hosts.CachedImage": "As the host's last audit reported it.",
    "hosts.Leftover": "As the host's last audit reported it, bounded for each host.",
    "hosts.HostCommand": "Deleted a day after its end.",
    "hosts.CommandTotal": "One for each kind of command.",
    "hosts.HostCall": "Deleted with its answer, or a minute after the caller stopped waiting.",
    "hosts.Restore": "One for each restore by an operator.",
    "hosts.RefusedAgent": "Deleted when the host is admitted, or a day after the last attempt; bounded.",
    "hosts.RejectedReport": "Deleted some days after the last retry.",
}
