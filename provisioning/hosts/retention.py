"""What of hosts is purged, and when."""

from datetime import datetime

from django.db.models import Q, QuerySet

from provisioning.hosts.models import JoinToken
from provisioning.jobs.retention import Purged


def _join_tokens(before: datetime) -> QuerySet[JoinToken]:
    return JoinToken.objects.filter(Q(used_at__lt=before) | Q(expires_at__lt=before))


PURGED = (Purged("join tokens", JoinToken, _join_tokens),)
KEPT = {
    "hosts.Host": "Made and removed by operators.",
    "hosts.CertificateAuthority": "Goes when another one has followed it.",
    "hosts.HostCertificate": "One for each host.",
    "hosts.CachedImage": "What the host's last audit said.",
    "hosts.Leftover": "What the host's last audit said, bounded for each host.",
    "hosts.HostCommand": "Goes an hour after its end.",
    "hosts.CommandTotal": "One for each kind of command.",
    "hosts.HostCall": "Goes with its answer, or a minute after nobody waits for one.",
    "hosts.Restore": "One for each time that operators restore a copy.",
    "hosts.RejectedReport": "Goes some days after it was given up.",
}
