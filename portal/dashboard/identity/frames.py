"""Common pages of each kind of record: list, form, and confirmation."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard.frame.pages import FormPage
from portal.dashboard.identity.base import IdentityPage, OnePage, Record
from portal.dashboard.lists import views as lists
from portal.dashboard.records.questions import QuestionPage
from provisioning.identity.models import Domain, Group, Project, Role, User


class ListPage(lists.ListPage, IdentityPage):
    """Base of the lists of Identity records."""


class RecordFormPage(FormPage, IdentityPage):
    """Base of the forms that create a record of a ``kind``, or with OnePage update one."""

    kind: ClassVar[str]
    template = "dashboard/identity/record_form.html"

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Save the form. Callers who may not change the record get no form."""
        self.changed()
        return super().post(request)

    def changed(self) -> Project | User | Group | Role | Domain | None:
        """Return the record to update, None for a new one; raises the errors of ``OnePage.record``."""
        return self.record if isinstance(self, OnePage) else None

    def extra_context(self) -> dict[str, Any]:
        return {
            "record": self.changed(),
            "has_page": isinstance(self, OnePage) and self.has_page,
            "kind": self.kind,
            "listed": f"dashboard:{self.kind}s",
            "back": self.back() if isinstance(self, OnePage) else reverse(f"dashboard:{self.kind}s"),
        }


class DeletePage(QuestionPage, OnePage[Record]):
    """Base of the pages that delete a record after confirmation; ``remove`` is the service."""

    remove: ClassVar[Callable[..., object]]

    def do(self) -> None:
        self.remove(self.record)

    def success_url(self) -> str:
        return f"dashboard:{self.kind}s"
