"""What the pages of each kind of record have alike: the list, the form, and the question before something is done."""

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
    """Base of the lists, of ``kind`` and with a search; ``states`` are those that it can be narrowed to."""

    kind: ClassVar[str]
    template: ClassVar[str]
    states: ClassVar[tuple[tuple[str, str], ...]] = ()

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show them by name."""
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
        """Return the page of the list that is wanted."""
        raise NotImplementedError

    def rows(self, found: Sequence[Any]) -> Sequence[Any]:
        """Return what the template shows of each."""
        return found

    def further(self) -> dict[str, Any]:
        """Return what else the template needs."""
        return {}


class RecordFormPage(FormPage, IdentityPage):
    """Base of the forms that make a record of a ``kind``, or with OnePage change one."""

    kind: ClassVar[str]
    template = "dashboard/identity/record_form.html"

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Save what was typed.  Whoever may not change the record gets no form."""
        self.changed()
        return super().post(request)

    def changed(self) -> Project | User | Group | Role | Domain | None:
        """Return the record that is to be changed, None for a new one; errors as of ``OnePage.record``."""
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
    """Base of what is done after a question; ``question`` has the name of the record as ``{name}``."""

    question: ClassVar[str] = "Delete {name}?"
    text: ClassVar[str]
    label: ClassVar[str] = "Delete"

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.ask_first(self.question.format(name=bdi(self.record.name)), self.text, self.label)


class DeletePage(QuestionPage[Record]):
    """Base of the pages that delete a record after a question; ``remove`` is the service."""

    remove: ClassVar[Callable[..., object]]

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        name = self.record.name
        self.remove(self.record)
        return self.go(f"dashboard:{self.kind}s", said=f"{name} was deleted.")
