"""Common pages of networking and volumes: live details and forms."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage, Page, PageRequest
from portal.dashboard.frame.things import Thing
from portal.dashboard.records import refusals
from portal.dashboard.records.paging import live_name
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors as compute
from provisioning.identity import policy
from provisioning.identity.selectors.lookups import names_of_projects


def other_project(context: RequestContext, owner: uuid.UUID) -> str:
    """Return the name of the project, or its id after its deletion; empty for the selected project."""
    return "" if owner == context.project_id else names_of_projects([owner]).get(owner, str(owner))


Record = TypeVar("Record")
Crumbs = Iterable[tuple[str, str]]
"""Labels and addresses of the parent pages."""


class RecordsPage(Page):
    """Base of the pages of networking and volumes."""

    def crumbs(self) -> Crumbs:
        """Return the parent pages below the list."""
        return ()

    def refused(self, error: NovellaError) -> HttpResponse:
        """Show the error in the terms of the pages."""
        return self.go(self.back(), message=refusals.message_of(error), level=messages.ERROR)


class RecordPage(RecordsPage, Generic[Record]):
    """Base of the pages of one record, by its id."""

    record: Record
    page_name: ClassVar[str] = ""
    """The URL name of the record's page, on which errors are shown. If it is empty, errors are shown on ``back_to``."""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the record, which must be visible to this project. Raises NotFoundError."""
        self.record = self.look_up(kwargs["identity"])
        return owners_of(self.record)

    def look_up(self, identity: uuid.UUID) -> Record:
        raise NotImplementedError

    def back(self) -> str:
        return reverse(self.page_name, args=[cast("Any", self.record).pk]) if self.page_name else self.back_to


class DetailPage(RecordPage[Record]):
    """Base of the detail pages, with live updates."""

    template: ClassVar[str]
    live_kind: ClassVar[str]
    """The kind of the record in the name of its live page."""

    def get(self, request: HttpRequest, identity: uuid.UUID) -> HttpResponse:
        since = self.live_since()
        parts = self.parts(identity, request.GET.get("page", ""))
        self.live_page = live_name(f"{self.live_kind}/{identity}", parts.get("pages"))
        self.thing = Thing(self.live_kind, str(identity), name_of(self.record))
        return self.page(self.template, {"live_since": since, **parts})

    def parts(self, identity: uuid.UUID, number: str) -> Mapping[str, Any]:
        """Return the context; ``number`` is the page of the record's long table, if it has one."""
        raise NotImplementedError


class SheetPage(FormPage, RecordsPage):
    """A form that is shown in the dialog of the previous page, or on a page of its own for browsers without scripts."""

    template = "dashboard/records/form.html"
    heading: ClassVar[str] = ""
    submit: ClassVar[str] = "Save"

    def extra_context(self) -> Mapping[str, Any]:
        return {
            "heading": self.title(),
            "crumbs": self.crumbs(),
            "submit": self.submit,
            "back": self.cancel_url(),
            "action": self.request.get_full_path(),
            "about": self.about(),
        }

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        if cast("PageRequest", self.request).htmx:
            return self.part("dashboard/records/_sheet.html", self.form_context(form), status=status)
        return super().show(form, status=status)

    def title(self) -> str:
        return self.heading

    def about(self) -> str:
        """Return the text below the heading."""
        return ""

    def cancel_url(self) -> str:
        """Return the address of the Cancel button."""
        back = self.back()
        return reverse(back) if back.startswith("dashboard:") else back


def owners_of(record: Any) -> dict[str, object]:
    """Return the policy target of a record: its owner, and the owner of its network."""
    network = getattr(record, "network", None)
    owner = network.project_id if network is not None else record.project_id
    return {"project_id": record.project_id, "network:project_id": owner, "network:tenant_id": owner}


def may(context: RequestContext, rule: str, record: Any) -> bool:
    """Whether the policy allows the rule for the record."""
    return policy.allows(context, rule, owners_of(record))


def name_of(record: Any) -> str:
    return str(getattr(record, "name", "") or record)


def instance_names(context: RequestContext, ids: Iterable[uuid.UUID | None]) -> dict[uuid.UUID, str]:
    """Return the names of the project's instances with these ids. Without ids, no query is sent."""
    known = {key for key in ids if key}
    return {row.id: row.name for row in compute.instances_for(context, ids=known)} if known else {}
