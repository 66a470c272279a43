"""Common pages of each kind of record: list, form, and confirmation."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard.identity.base import IdentityPage, OnePage, Record, wanted_of
from portal.dashboard.names import bdi
from portal.dashboard.pages import FormPage
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.selectors import dashboard_lists


class ListPage(IdentityPage):
    """Base of the lists of a ``kind``, with a search; ``states`` are the states to filter by."""

    kind: ClassVar[str]
    template: ClassVar[str]
    states: ClassVar[tuple[tuple[str, str], ...]] = ()

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the records by name."""
        wanted = wanted_of(request, self.states, within=self.within)
        found = self.find(wanted)
        context = {
            "found": found,
            "rows": self.rows(found.rows),
            "wanted": wanted,
            "states": self.states,
            "can_create": self.allows(f"identity:create_{self.kind}", self.target()),
            **self.further(),
        }
        return self.page(self.template, context)

    def find(self, wanted: dashboard_lists.Wanted) -> dashboard_lists.Found[Any]:
        """Return the requested page of the list."""
        raise NotImplementedError

    def rows(self, found: Sequence[Any]) -> Sequence[Any]:
        """Return the rows for the template."""
        return found

    def further(self) -> dict[str, Any]:
        """Return additional context for the template."""
        return {}


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

    def further(self) -> dict[str, Any]:
        return {
            "record": self.changed(),
            "has_page": isinstance(self, OnePage) and self.has_page,
            "kind": self.kind,
            "listed": f"dashboard:{self.kind}s",
            "back": self.back() if isinstance(self, OnePage) else reverse(f"dashboard:{self.kind}s"),
        }


class QuestionPage(OnePage[Record]):
    """Base of actions with a confirmation; ``question`` contains the record's name as ``{name}``."""

    question: ClassVar[str] = "Delete {name}?"
    text: ClassVar[str]
    label: ClassVar[str] = "Delete"

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.ask_first(self.question.format(name=bdi(self.record.name)), self.text, self.label)


class DeletePage(QuestionPage[Record]):
    """Base of the pages that delete a record after confirmation; ``remove`` is the service."""

    remove: ClassVar[Callable[..., object]]

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        name = self.record.name
        self.remove(self.record)
        return self.go(f"dashboard:{self.kind}s", said=f"{name} was deleted.")
