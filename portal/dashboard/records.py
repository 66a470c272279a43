"""What the pages of networking and of volumes have alike: lists and records that are live, forms, and questions."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard import refusals
from portal.dashboard.forms import Form
from portal.dashboard.names import bdi
from portal.dashboard.pages import FormPage, Page, PageRequest
from portal.dashboard.paging import live_name
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors as compute
from provisioning.identity import policy

Record = TypeVar("Record")
Crumbs = Iterable[tuple[str, str]]
"""Words and addresses of the pages above."""


class RecordsPage(Page):
    """Base of all of them."""

    def crumbs(self) -> Crumbs:
        """Return the pages above, without the list."""
        return ()

    def refused(self, error: NovellaError) -> HttpResponse:
        """Say it in the words of the pages."""
        return self.go(self.back(), said=refusals.said(error), level=messages.ERROR)


class ListPage(RecordsPage):
    """Base of the lists, which follow what changes."""

    template: ClassVar[str]

    def get(self, request: HttpRequest) -> HttpResponse:
        since = self.live_since()  # before the rows are read: what changes meanwhile comes again
        parts = self.parts(request.GET.get("page", ""))
        self.live_page = live_name(self.live_page, parts["pages"])
        return self.page(self.template, {"live_since": since, **parts})

    def parts(self, number: str) -> Mapping[str, Any]:
        """Return what the template needs for a page of the table; ``pages`` among it."""
        raise NotImplementedError


class RecordPage(RecordsPage, Generic[Record]):
    """Base of the pages of one record, by the id in the address."""

    record: Record
    page_name: ClassVar[str] = ""
    """The URL name of the record's page, where refusals are shown; without one that is ``back_to``."""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the record as this project sees it; NotFoundError."""
        self.record = self.look_up(kwargs["identity"])
        return owners_of(self.record)

    def look_up(self, identity: uuid.UUID) -> Record:
        raise NotImplementedError

    def back(self) -> str:
        return reverse(self.page_name, args=[cast("Any", self.record).pk]) if self.page_name else self.back_to


class DetailPage(RecordPage[Record]):
    """Base of the pages that show one record, and follow what changes of it."""

    template: ClassVar[str]
    live_kind: ClassVar[str]
    """The word for the record in the name of its live page."""

    def get(self, request: HttpRequest, identity: uuid.UUID) -> HttpResponse:
        since = self.live_since()
        parts = self.parts(identity, request.GET.get("page", ""))
        self.live_page = live_name(f"{self.live_kind}/{identity}", parts.get("pages"))
        return self.page(self.template, {"live_since": since, **parts})

    def parts(self, identity: uuid.UUID, number: str) -> Mapping[str, Any]:
        """Return what the template needs; ``number``: of the page of its long table, when it has one."""
        raise NotImplementedError


class QuestionPage(RecordPage[Record]):
    """Base of what is done to a record after a question; ``{name}`` in its words is the record's."""

    question: ClassVar[str] = "Delete {name}?"
    consequence: ClassVar[str] = ""
    label: ClassVar[str] = "Delete"
    said: ClassVar[str] = "{name} was deleted."

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.ask_first(self.question.format(name=bdi(self.name())), self.text(), self.label)

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Do it, and leave."""
        name = self.name()
        self.do()
        return self.go(self.leave_for(), said=self.said.format(name=bdi(name)))

    def name(self) -> str:
        return name_of(self.record)

    def text(self) -> str:
        """Return what follows when the answer is yes."""
        return self.consequence

    def do(self) -> None:
        """Call the service."""
        raise NotImplementedError

    def leave_for(self) -> str:
        """Return where to go afterwards: the list, for what is gone."""
        return self.back_to


class SheetPage(FormPage, RecordsPage):
    """A form that the page before shows in its dialog, or that has a page of its own for browsers without scripts."""

    template = "dashboard/records/form.html"
    heading: ClassVar[str] = ""
    submit: ClassVar[str] = "Save"

    def further(self) -> Mapping[str, Any]:
        return {
            "heading": self.words(),
            "crumbs": self.crumbs(),
            "submit": self.submit,
            "back": self.leave(),
            "action": self.request.get_full_path(),
            "about": self.about(),
        }

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        if cast("PageRequest", self.request).htmx:
            return self.part("dashboard/records/_sheet.html", {"form": form, **self.further()}, status=status)
        return super().show(form, status=status)

    def words(self) -> str:
        """Return the heading."""
        return self.heading

    def about(self) -> str:
        """Return what is said below the heading."""
        return ""

    def leave(self) -> str:
        """Return the address where Cancel leads."""
        back = self.back()
        return reverse(back) if back.startswith("dashboard:") else back


def owners_of(record: Any) -> dict[str, object]:
    """Return the ids that a rule may name of a record: its owner's, and that of its network's owner."""
    network = getattr(record, "network", None)
    owner = network.project_id if network is not None else record.project_id
    return {"project_id": record.project_id, "network:project_id": owner, "network:tenant_id": owner}


def may(context: RequestContext, rule: str, record: Any) -> bool:
    """Whether the caller may do this to a record."""
    return policy.allows(context, rule, owners_of(record))


def name_of(record: Any) -> str:
    return str(getattr(record, "name", "") or record)


def instance_names(context: RequestContext, ids: Iterable[uuid.UUID | None]) -> dict[uuid.UUID, str]:
    """Return the names of the project's instances among these ids; no query without ids."""
    known = {key for key in ids if key}
    return {row.id: row.name for row in compute.instances_for(context, ids=known)} if known else {}
