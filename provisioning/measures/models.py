"""Reports of hosts that are not yet collected, and blocks of points."""

import uuid

from django.db import models

CLOUD = uuid.UUID("00000000-0000-4000-8000-000000000000")
"""The subject of the sums over all hosts."""


class Report(models.Model):
    """The samples of one host in one slot of 10 seconds.

    ``place`` is the slot modulo the number of slots that are kept, so that a host has a limited number of rows even if
    no worker collects them.
    """

    host_id = models.UUIDField()
    place = models.PositiveSmallIntegerField()
    slot = models.PositiveBigIntegerField(db_index=True)  # Unix time / 10 s
    data = models.BinaryField()  # the codes of the host, then id and codes of each guest

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host_id", "place"], name="report_of_host_and_place")]

    def __str__(self) -> str:
        return f"{self.host_id} {self.slot}"


class Block(models.Model):
    """Consecutive points of one subject: a server, a host, a project or the cloud.

    ``data`` has for each point the codes of the ``width`` series, and in resolutions above 10 seconds the codes of
    their maximums. Missing points have codes 0, and points after the last known one are left out.
    """

    subject_id = models.UUIDField()
    resolution = models.PositiveSmallIntegerField()  # seconds of one point
    start = models.PositiveIntegerField()  # Unix time / seconds of one block
    width = models.PositiveSmallIntegerField()
    condensed = models.BooleanField(default=False)  # its points are in the blocks of the other resolutions
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subject_id", "resolution", "start"], name="block_of_subject")]
        indexes = [
            models.Index(fields=["resolution", "start"], name="block_by_age"),
            models.Index(fields=["start"], name="block_to_condense", condition=models.Q(condensed=False)),
        ]

    def __str__(self) -> str:
        return f"{self.subject_id} {self.resolution} {self.start}"


class Rejection(models.Model):
    """Samples of a host that were rejected last."""

    host_id = models.UUIDField(primary_key=True)
    at = models.DateTimeField()
    reason = models.CharField(max_length=255)

    def __str__(self) -> str:
        return self.reason
