"""Base class of the pages of projects' records: read-only, with the owner, and searchable by the owner's name."""

from typing import Any, ClassVar

from django.db.models import Q, Value
from django.db.models.functions import NullIf
from django.http import HttpRequest

from portal.ops.admin.base import Readable, TabularInline
from portal.ops.admin.columns import PROJECT, column, status
from provisioning.identity.models import Project

NAMED_FIRST: Any = (NullIf("name", Value("")).asc(nulls_last=True), "id")
"""Order by name, with unnamed records at the end."""
FIRST = ("name", "address", "mac_address", "id", "status", "error", "project_id", "network")
LAST = ("description", "revision_number", "created_at", "updated_at")


class ReadableInline(TabularInline):
    """Inline rows of a record, read-only."""

    extra = 0
    can_delete = False
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False


class Owned(Readable):
    """Records of all projects, which can be searched by the names of their projects."""

    readonly_fields: ClassVar[tuple[str, ...]] = ("state", "project")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return name, status and owner first, and rarely used fields last."""
        if self.fields:
            return self.fields
        columns = [field.name for field in (*self.model._meta.fields, *self.model._meta.many_to_many)]
        shown = {"status": "state", "project_id": "project"}
        first = [shown.get(name, name) for name in FIRST if name in columns]
        middle = [name for name in columns if name not in (*FIRST, *LAST)]
        return [*first, *middle, *(name for name in LAST if name in columns)]

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """Also find records of a project with this name."""
        rows, distinct = super().get_search_results(request, queryset, search_term)
        columns = {field.name for field in self.model._meta.fields}
        if not search_term or "project_id" not in columns:
            return rows, distinct
        ids = list(Project.objects.filter(name__iexact=search_term.strip()).values_list("id", flat=True))
        either = Q(project_id__in=ids) | Q(pk__in=rows.order_by().values("pk"))
        return (queryset.filter(either), False) if ids else (rows, distinct)

    state = column("status", status, ordering="status")
    project = PROJECT
