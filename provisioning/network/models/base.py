"""What every record of the Networking API has."""

import uuid
from typing import Any

from django.db import models


class Standard(models.Model):
    """Neutron's standard attributes; ``revision_number`` rises with every change that its owner can see."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    description = models.CharField(max_length=255, blank=True)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class Named(Standard):
    """One with a name, which need not be unique."""

    name = models.CharField(max_length=255, blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name or short_of(self.id)


class Shareable:
    """What a policy may share; the selectors of such records fill in how they look to the caller."""

    shared_with_caller = False
    """Whether a policy shares it with everybody or with the caller's project: Neutron's ``shared``."""


def short_of(identity: uuid.UUID) -> str:
    """Return what people call a record without a name."""
    return f"({str(identity)[:8]}…)"


def json_list() -> Any:
    """Return a column that holds a list."""
    return models.JSONField(default=list)
