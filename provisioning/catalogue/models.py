"""The index that was read last, and the images that were added from it."""

from django.db import models

from provisioning.images.models import Image


class CatalogueIndex(models.Model):
    """The only row: the last valid index, and the error of the last attempt to read it."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    source = models.CharField(max_length=2048)  # the setting CATALOGUE that the index was read from
    document = models.TextField(blank=True)  # JSON; empty if no valid index was read from the source
    key = models.CharField(max_length=64, blank=True)  # the public key that signed it; empty for the built-in index
    updated = models.DateTimeField(null=True)  # as the index says
    fault = models.TextField(blank=True)
    read_at = models.DateTimeField()  # the last attempt

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(pk=1), name="one_catalogue_index", violation_error_message="There is only one index."
            )
        ]

    def __str__(self) -> str:
        return self.source


class CatalogueImage(models.Model):
    """A version of an entry that was added, for all projects or for one project.

    ``image`` is unset after a failure, whose reason is ``fault``.
    """

    project_id = models.UUIDField(null=True)  # null: for all projects
    entry = models.CharField(max_length=64)
    version = models.CharField(max_length=64)
    image = models.ForeignKey(Image, on_delete=models.CASCADE, null=True, related_name="+")
    task_id = models.UUIDField(null=True, db_index=True)  # the import
    fault = models.TextField(blank=True)
    replaced_at = models.DateTimeField(null=True)  # hidden, because a newer version is active
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["entry", "version"],
                condition=models.Q(project_id=None),
                name="catalogue_version_once_for_all",
                violation_error_message="This version was added for all projects already.",
            ),
            models.UniqueConstraint(
                fields=["project_id", "entry", "version"],
                name="catalogue_version_once_in_project",
                violation_error_message="This version was added to this project already.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.entry} {self.version}"
