"""What hosts were told of networks, routers, floating IPs and security groups, and what has to be told anew."""

from django.db import models


class DeliveryMark(models.Model):
    """A subject that has changed: a job looks which hosts are to be told."""

    kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    marked_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject_id"], name="one_mark")]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_id}"


class Delivery(models.Model):
    """What one host was told last of one subject."""

    host_id = models.UUIDField(db_index=True)
    kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    generation = models.PositiveBigIntegerField(default=0)  # of the newest command; the row stays, so that it rises
    digest = models.CharField(max_length=64, blank=True)  # SHA-256 of the document, hex; empty: to be forgotten
    command_id = models.UUIDField(null=True)  # the command whose end is waited for
    again = models.BooleanField(default=False)  # something has changed since that command
    error = models.CharField(max_length=255, blank=True)  # how the last one ended badly
    tries = models.PositiveSmallIntegerField(default=0)  # since one ended well
    changed_at = models.DateTimeField(default=None, null=True)
    newer_at = models.DateTimeField(default=None, null=True)  # when its host was seen to have a newer one than these
    copied = models.PositiveBigIntegerField(
        default=None, null=True
    )  # its number in a restored copy, until the host is told
    kept = models.BooleanField(default=False, db_default=False)  # a guest there needs it that no record places there
    vni = models.PositiveIntegerField(null=True)  # of a network that is kept: no other network is given it

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject_id", "host_id"], name="one_delivery")]
        indexes = [models.Index(fields=["vni"], name="kept_vni", condition=models.Q(kept=True))]
        verbose_name_plural = "deliveries"

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_id}"
