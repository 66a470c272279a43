"""Snippets of cloud-config: the list, and their forms."""

import uuid

from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import Page
from portal.dashboard.launch_templates.forms import SnippetForm
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import RecordPage, SheetPage
from portal.dashboard.words.names import bdi
from provisioning.launches import selectors
from provisioning.launches.builtin import BUILT_IN
from provisioning.launches.models import Snippet
from provisioning.launches.services import snippets

LIST = "dashboard:snippets"
READ, WRITE = "novella:snippets:list", "novella:snippets:write"


class SnippetList(Page):
    """The project's snippets, and the built-in ones."""

    section = "launch_templates"
    rule = READ

    def get(self, request: HttpRequest) -> HttpResponse:
        context = {
            "rows": selectors.snippets_for(self.context),
            "built_in": BUILT_IN.values(),
            "can_write": self.allows(WRITE),
        }
        return self.page("dashboard/launch_templates/snippets.html", context)


class SnippetPage(RecordPage[Snippet]):
    """Base of the pages of one snippet."""

    section = "launch_templates"
    back_to = LIST
    rule = WRITE

    def look_up(self, identity: uuid.UUID) -> Snippet:
        return selectors.snippet_for(self.context, identity)


class SnippetCreate(SheetPage):
    """Creates a snippet of the project."""

    section = "launch_templates"
    back_to = LIST
    rule = WRITE
    heading, submit = "New snippet", "Create snippet"

    def form(self, data: QueryDict | None = None) -> Form:
        return SnippetForm(data)

    def save(self, form: Form) -> HttpResponse:
        made = snippets.create_snippet(self.context, **form.cleaned_data)
        return self.go(LIST, message=f"{bdi(made.name)} was created.")


class SnippetEdit(SheetPage, SnippetPage):
    """Edits a snippet; instances that were launched with it do not change."""

    def title(self) -> str:
        return f"Edit {bdi(self.record.name)}"

    def about(self) -> str:
        return "Instances that were launched with it keep what they have."

    def form(self, data: QueryDict | None = None) -> Form:
        row = self.record
        return SnippetForm(data, initial={"name": row.name, "description": row.description, "text": row.text})

    def save(self, form: Form) -> HttpResponse:
        changed = snippets.update_snippet(self.context, self.record.id, **form.cleaned_data)
        return self.go(LIST, message=f"{bdi(changed.name)} was updated.")


class SnippetDelete(QuestionPage, SnippetPage):
    """Deletes a snippet, even if launch templates choose it."""

    consequence = "Launch templates that choose it cannot be launched until they get a new version."

    def do(self) -> None:
        snippets.delete_snippet(self.context, self.record.id)
