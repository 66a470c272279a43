"""Snippets of cloud-config: the list, and their forms."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse, QueryDict

from portal.dashboard.frame.forms import Form
from portal.dashboard.launch_templates.forms import SnippetForm
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.declaration import Column, Empty, HeadLink, RecordList, searched
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import RecordPage, SheetPage
from portal.dashboard.words.markup import format_html
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.identity import policy
from provisioning.launches import selectors
from provisioning.launches.cloud_config.builtin import BUILT_IN
from provisioning.launches.models import Snippet
from provisioning.launches.services import snippets

LIST = "dashboard:snippets"
READ, WRITE = "novella:snippets:list", "novella:snippets:write"
Row = dict[str, Any]


def _rows(context: RequestContext, records: Sequence[Snippet]) -> list[Row]:
    can_write = policy.allows(context, WRITE)
    return [{"snippet": each, "can_write": can_write} for each in records]


def _text(row: Row) -> str:
    text = row["snippet"].text
    return format_html(
        '<details><summary class="small">{}</summary><pre class="small">{}</pre></details>',
        cells.count(len(text.splitlines()), "line"),
        text,
    )


def _buttons(row: Row) -> object:
    if not row["can_write"]:
        return ""
    name, ident = row["snippet"].name, row["snippet"].id
    edit = cells.button("pencil", "Edit", name, "dashboard:snippet_edit", ident)
    return edit + cells.button("trash", "Delete", name, "dashboard:snippet_delete", ident)


SNIPPETS = RecordList[Snippet](
    key="snippets",
    model=Snippet,
    one="snippet",
    noun="snippets",
    rule=READ,
    row_id="snippet",
    records=lambda context, _: selectors.snippets_for(context),
    rows=_rows,
    default="name",
    columns=(
        columns.name(
            lambda row: cells.name(row["snippet"].name, below=row["snippet"].description),
            lambda row: row["snippet"].name,
        ),
        Column("text", "Text", _text, plain=lambda row: row["snippet"].text),
        columns.age("snippet"),
        columns.ident("snippet"),
    ),
    actions=_buttons,
    search=searched("name", "description", "text"),
    find="Find by name or text",
    empty=Empty(
        "file-earmark-code", "No snippets of this project yet", "The built-in snippets below can also be used."
    ),
    create=HeadLink("New snippet", "dashboard:snippet_create", rule=WRITE, asks=True, first="Create the first one"),
)


class SnippetList(ListPage):
    """The project's snippets, and the built-in ones."""

    section = "launch_templates"
    records = SNIPPETS
    template = "dashboard/launch_templates/snippets.html"
    heading, parents = "Snippets", [("Launch templates", "dashboard:launch_templates")]
    lead = "Pieces of cloud-config that a launch adds to its user data."

    def extra_context(self) -> Mapping[str, Any]:
        return {"built_in": BUILT_IN.values()}


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

    edits = True

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
