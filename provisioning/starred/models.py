"""Starred resources."""

from django.db import models


class Star(models.Model):
    """A resource that a user has starred in a project; ``kind`` is one of ``search.sources``.

    ``name`` is the name at that time, so that no other table is read for a page.
    """

    user_id = models.UUIDField()
    project_id = models.UUIDField(db_index=True)
    kind = models.CharField(max_length=40)
    resource_id = models.UUIDField()
    name = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user_id", "project_id", "kind", "resource_id"], name="starred_once")
        ]

    def __str__(self) -> str:
        return self.name
