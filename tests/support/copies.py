"""A copy of all records, to be put back later as a restore from a backup puts it back."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import Model
from django_q.models import OrmQ


def _models() -> list[type[Model]]:
    found = apps.get_models(include_auto_created=True)
    ours = [model for model in found if model.__module__.startswith("provisioning.") or model is OrmQ]
    return [model for model in ours if model._meta.managed and not model._meta.proxy]


class Copy:
    """All rows as they are when it is made."""

    def __init__(self) -> None:
        self._rows = {model: list(model._default_manager.values()) for model in _models()}

    @transaction.atomic
    def put_back(self) -> None:
        """Let the records be as they were; foreign keys are looked at when the transaction ends."""
        for model in self._rows:
            model._default_manager.all()._raw_delete(DEFAULT_DB_ALIAS)
        for model, rows in self._rows.items():
            self._write(model, rows)

    @staticmethod
    def _write(model: type[Model], rows: list[dict[str, Any]]) -> None:
        clocks = [field for field in model._meta.fields if getattr(field, "auto_now_add", False)]
        for field in clocks:
            field.auto_now_add = False  # type: ignore[attr-defined]
        try:
            model._default_manager.bulk_create(model(**row) for row in rows)
        finally:
            for field in clocks:
                field.auto_now_add = True  # type: ignore[attr-defined]
