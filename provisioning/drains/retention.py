"""Retention of drains."""

from datetime import datetime

from django.db.models import QuerySet

from provisioning.drains.models import Drain, DrainItem
from provisioning.jobs.retention import Part, Purged


def _finished(before: datetime) -> QuerySet[Drain]:
    return Drain.objects.filter(finished_at__lt=before)


PURGED = (Purged("drains", Drain, _finished, (Part("items of drains", DrainItem, "drain"),)),)
UNLIMITED = {
    "drains.Drain": "Created by operators, one unfinished for each host.",
    "drains.DrainItem": "At most a thousand for each drain.",
}
