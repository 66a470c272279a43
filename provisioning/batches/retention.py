"""Retention of batches, and their deletion with projects and users."""

from datetime import datetime

from django.db.models import QuerySet

from provisioning.batches.models import Batch, BatchItem
from provisioning.identity.records.project_resources import Owned
from provisioning.jobs.retention import Part, Purged


def _finished(before: datetime) -> QuerySet[Batch]:
    return Batch.objects.filter(finished_at__lt=before)


PURGED = (Purged("batches", Batch, _finished, (Part("items of batches", BatchItem, "batch"),)),)
OF_PROJECTS = (Owned("batches", remove=lambda ids: Batch.objects.filter(project_id__in=ids).delete()),)
OF_USERS = (Owned("batches", remove=lambda ids: Batch.objects.filter(user_id__in=ids).delete()),)
UNLIMITED = {
    "batches.Batch": "At most thirty for each user and project; the oldest ones are deleted.",
    "batches.BatchItem": "At most a thousand of a batch.",
}
