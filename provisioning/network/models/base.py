"""Base classes of the Networking API's records."""

import uuid
from typing import Any

from django.db import models


class Standard(models.Model):
    """Neutron's standard attributes; ``revision_number`` increases with every change that the owner can see."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    description = models.CharField(max_length=255, blank=True)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class Named(Standard):
    """A record with a name, which need not be unique."""

    name = models.CharField(max_length=255, blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name or short_of(self.id)


class Shareable:
    """A record that RBAC policies can share; selectors set the attributes for the caller."""

    shared_with_caller = False
    """Whether a policy shares it with all projects or with the caller's: Neutron's ``shared``."""


def short_of(identity: uuid.UUID) -> str:
    """Return the display name of a record without a name."""
    return f"({str(identity)[:8]}…)"


def json_list() -> Any:
    """Return a JSON column whose default is an empty list."""
    return models.JSONField(default=list)
