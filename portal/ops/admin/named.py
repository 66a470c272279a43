"""Accessible names for controls of Django's admin that have none (WCAG 4.1.2)."""

from typing import Any

from django.contrib.admin.widgets import AutocompleteSelect
from django.db.models import Field
from django.http import HttpRequest


class NamedSelect(AutocompleteSelect):
    """An autocomplete field whose placeholder names it while it is empty."""

    def build_attrs(self, base_attrs: dict[str, Any], extra_attrs: dict[str, Any] | None = None) -> dict[str, Any]:
        return super().build_attrs(base_attrs, extra_attrs) | {"data-placeholder": f"Choose: {self.field.verbose_name}"}


class NamedChoices:
    """A page or an inline table whose ``autocomplete_fields`` have accessible names."""

    admin_site: Any
    get_autocomplete_fields: Any

    def formfield_for_foreignkey(self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any) -> Any:
        if "widget" not in kwargs and db_field.name in self.get_autocomplete_fields(request):
            kwargs["widget"] = NamedSelect(db_field, self.admin_site, using=kwargs.get("using"))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)  # type: ignore[misc]
