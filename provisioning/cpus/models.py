"""The processors that running guests were started with."""

import uuid

from django.db import models


class Processor(models.Model):
    """A processor as guests see it, in libvirt's names; guests with the same processor share a row."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of the other columns, hex
    model = models.CharField(max_length=64, blank=True)
    vendor = models.CharField(max_length=64, blank=True)
    features = models.JSONField(default=list)  # names, sorted

    def __str__(self) -> str:
        return self.model or self.digest[:8]


class GuestProcessor(models.Model):
    """The processor of a running guest, as the last audit of its host reported it."""

    instance_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host_id = models.UUIDField(db_index=True)
    processor = models.ForeignKey(Processor, on_delete=models.CASCADE, related_name="guests")

    def __str__(self) -> str:
        return str(self.instance_id)
