"""Base classes of the admin's pages, which read records directly and write only through services."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import AutocompleteSelect
from django.db.models import Field, Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from portal.ops.admin.columns import read_columns
from portal.ops.shown import IN_DASHBOARD, OBJECT_PAGES
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NovellaError
from provisioning.identity import policy
from provisioning.identity.models import Group, User
from provisioning.identity.roles import safeguards

if TYPE_CHECKING:  # generic only for the type checker
    ModelAdmin = admin.ModelAdmin[Any]
    TabularInline = admin.TabularInline[Any, Any]
    ModelForm = forms.ModelForm[Any]
else:
    ModelAdmin, TabularInline, ModelForm = admin.ModelAdmin, admin.TabularInline, forms.ModelForm


def context_of(request: HttpRequest) -> RequestContext:
    """Return the caller's context. Raises ForbiddenError if there is none; the site then refuses access."""
    context: RequestContext | None = getattr(request, "context", None)
    if context is None:
        raise ForbiddenError("Sign in first.")
    return context


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


class Ruled(NamedChoices, ModelAdmin):
    """Pages of records with policy checks.

    ``rules`` has the API operation's rule for each of Django's four permissions, and for each action by name; without a
    rule, access to the operators' pages (``novella:admin``) is sufficient.
    """

    rules: ClassVar[Mapping[str, str]] = {}
    narrowed_by: ClassVar[tuple[str, ...]] = ()
    """Fields by which links from other pages filter the list, in addition to the filters that the list shows."""

    def get_ordering(self, request: HttpRequest) -> Any:
        """Return the page's ordering, by default by name, otherwise newest first."""
        names = {field.name for field in self.opts.concrete_fields}
        usual = next((each for each in ("name", "created_at") if each in names), "pk")
        return self.ordering or self.opts.ordering or ("-created_at" if usual == "created_at" else usual,)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Set the title to the plural of the record, and add the dashboard's page for it, if any."""
        pages = IN_DASHBOARD.get(self.opts.label)
        context = {
            "title": capfirst(str(self.opts.verbose_name_plural)),
            "dashboard_page": reverse(f"dashboard:{pages[0]}") if pages else "",
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Read the columns of the page with a fixed number of queries."""
        changes = super().get_changelist_instance(request)
        rows = list(changes.result_list)
        read_columns([getattr(type(self), name, None) for name in self.get_list_display(request)], rows)
        return changes

    def get_view_on_site_url(self, obj: Any = None) -> str | None:
        """Return the page of the record in the dashboard; None: it has none."""
        page = OBJECT_PAGES.get(self.opts.label)
        return reverse(f"dashboard:{page}", args=[obj.pk]) if page and obj is not None else None

    def get_list_display(self, request: HttpRequest) -> Any:
        """Add the links to the records' pages in the dashboard."""
        shown = super().get_list_display(request)
        return [*shown, "in_dashboard"] if self.opts.label in OBJECT_PAGES else shown

    @admin.display(description="in the dashboard")
    def in_dashboard(self, row: Model) -> str | SafeString:
        """Return a link to the page of the record in the dashboard."""
        page = self.get_view_on_site_url(row)
        return format_html('<a href="{}" aria-label="Open {} in the dashboard">Open</a>', page, row) if page else ""

    def may(self, request: HttpRequest, permission: str, obj: Model | None = None) -> bool:
        """Whether the policy allows the caller a permission or action."""
        context: RequestContext | None = getattr(request, "context", None)
        rule = self.rules.get(permission, "novella:admin")
        if context is None or not policy.allows(context, rule, self.policy_target(obj)):
            return False
        return permission == "view" or not isinstance(obj, User | Group) or not safeguards.is_superior(context, obj)

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {}

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may(request, "view", obj)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "view")

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow filters only by fields that the list shows. Filters by other fields would reveal hashes character by
        character.
        """
        shown = {each for each in (*self.list_display, *self.list_filter, *self.narrowed_by) if isinstance(each, str)}
        allowed: bool = super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]
        return allowed and lookup.partition("__")[0] in shown | {"id", "pk"}

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Offer and run only actions that the policy allows."""
        actions = super().get_actions(request)
        return {name: action for name, action in actions.items() if self.may(request, name)}


class Readable(Ruled):
    """Read-only records; the only changes are the page's actions."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class InDashboard(Readable):
    """Records whose forms are pages of the dashboard: the admin lists and shows them, with actions on several."""

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Remove Django's own bulk deletion, which bypasses services."""
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions


class Written(Ruled):
    """Records that operators can edit, through the services that each page declares.

    Errors of a service are shown in the form, and the input is kept. ``update`` and ``remove`` are the services that
    update a record (with changes by name) and delete one. ``fixed`` are immutable fields, ``new_fields`` the fields of
    the form for a new record, if they differ.
    """

    list_per_page = 50
    show_full_result_count = False
    actions: Sequence[Any] = ()
    update: ClassVar[Callable[..., object]]
    remove: ClassVar[Callable[..., object]]
    fixed: ClassVar[tuple[str, ...]] = ()
    new_fields: ClassVar[tuple[str, ...]] = ()

    def create(self, data: dict[str, Any]) -> Model:
        """Create a record from the form's data with its service."""
        raise NotImplementedError

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.new_fields if obj is None and self.new_fields else super().get_fields(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return (*self.readonly_fields, *(self.fixed if obj else ()))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        if not change:
            obj.pk = self.create(form.cleaned_data).pk
        elif form.changed_data:
            obj.refresh_from_db()  # the service needs the stored values, not those of the form
            self.update(obj, **{name: form.cleaned_data[name] for name in form.changed_data})

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.remove(obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "add")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may(request, "change", obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may(request, "delete", obj)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Show the form, or write through the service; on an error the form is shown again with the message."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except NovellaError as error:
            request._novella_refusal = error  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Django's
        """Add the error of the service to the form."""
        made = super().get_form(request, obj, change=change, **kwargs)
        error: NovellaError | None = getattr(request, "_novella_refusal", None)
        if error is None:
            return made

        def clean(form: Any) -> Any:
            made.clean(form)
            form.add_error(error.field if error.field in form.fields else None, error.message)
            return form.cleaned_data

        return type("Refused", (made,), {"clean": clean})

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask for confirmation, then delete through the service; on an error return to the record."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except NovellaError as error:
            messages.error(request, error.message)
            return HttpResponseRedirect(request.path.removesuffix("delete/") + "change/")

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """Return only the objects: the service deletes dependent records, and refuses if it cannot."""
        return [str(each) for each in objs], {}, set(), []

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Remove Django's own bulk deletion, which bypasses services."""
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions


def identity_rules(kind: str) -> dict[str, str]:
    """Return the Identity API's policy rules of a kind of record."""
    words = {"add": "create", "change": "update", "delete": "delete"}
    return {"view": f"identity:list_{kind}s"} | {name: f"identity:{word}_{kind}" for name, word in words.items()}


Choices = Callable[[], Sequence[tuple[str, str]]]


def row_action(
    label: str,
    message: str,
    *,
    question: str = "",
    among: Callable[[QuerySet[Any]], QuerySet[Any]] = lambda rows: rows,
    choices: Choices | None = None,
) -> Callable[[Callable[..., object]], Any]:
    """Build an admin action that runs a function for each selected row, after confirmation if there is a ``question``.

    An error of one row is shown, and the action continues with the next row. ``message`` is shown at the
    end, followed by the number of successful rows. ``among`` filters the selected rows. ``choices`` returns values and
    labels for a choice in the confirmation; the chosen value is passed after the row.
    """

    def made(do: Callable[..., object]) -> Any:
        @admin.action(description=label)
        @functools.wraps(do)
        def run(page: ModelAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            rows = among(queryset)
            offered = choices() if choices else []
            if question and (question_page := confirmed(page, request, rows, do.__name__, question, offered)):
                return question_page
            chosen = [request.POST.get("choice", "")] if choices else []
            context, done = context_of(request), 0
            for row in rows:
                try:
                    if isinstance(row, User | Group):
                        safeguards.refuse_superior(context, row)
                    do(page, context, row, *chosen)
                    done += 1
                except NovellaError as error:
                    messages.error(request, f"{row}: {error.message}")
            if done:
                messages.success(request, f"{message}: {done}.")
            return None

        return run

    return made


def confirmed(
    page: ModelAdmin,
    request: HttpRequest,
    rows: QuerySet[Any],
    action: str,
    question: str,
    choices: Sequence[tuple[str, str]] = (),
) -> HttpResponse | None:
    """Return a confirmation page, or None if the operator has confirmed and, if there are ``choices``, selected one."""
    if "confirmed" in request.POST and (not choices or request.POST.get("choice") in dict(choices)):
        return None
    context = {
        **page.admin_site.each_context(request),
        "title": question,
        "opts": page.model._meta,
        "rows": rows,
        "action": action,
        "choices": choices,
        "checkbox": ACTION_CHECKBOX_NAME,
    }
    return TemplateResponse(request, "admin/novella/confirm.html", context)
