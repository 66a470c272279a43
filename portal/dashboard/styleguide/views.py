"""The page of the examples, and the dialogs that it opens."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase

from portal.dashboard.flavors import FLAVORS
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import Page
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import SheetPage
from portal.dashboard.styleguide import examples

HOME = "dashboard:styleguide"
LEVELS = {
    "success": (messages.SUCCESS, "It was done."),
    "info": (messages.INFO, "A message without a consequence."),
    "warning": (messages.WARNING, "The action succeeded, with a warning."),
    "error": (messages.ERROR, "The action was refused. Errors are shown until they are closed."),
}


class Example(Page):
    """Base of the pages of the style guide, which exist only with DEBUG."""

    section = "styleguide"
    back_to = HOME
    everywhere = True
    rule = "novella:flavors:index"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not settings.DEBUG:
            raise Http404
        return super().dispatch(request, *args, **kwargs)


class Styleguide(ListPage, Example):
    """The page with every component. It has the list of flavors as an example of a list."""

    records = FLAVORS
    template = "dashboard/styleguide/page.html"

    def post(self, request: HttpRequest) -> HttpResponse:
        """Show a message of the chosen level."""
        level, text = LEVELS.get(request.POST.get("level", ""), LEVELS["info"])
        return self.go(HOME, message=text, level=level)

    def extra_context(self) -> Mapping[str, Any]:
        chart = examples.chart()
        return {
            "form": examples.form_with_errors(),
            "statuses": examples.statuses(),
            "meters": examples.meters(),
            "chart": chart,
            "graphs": {"moments": "minutes"},
            "launch": examples.launch(),
            "copied": self.written([examples.VOLUME]),
            "levels": list(LEVELS),
        }


class StyleguideQuestion(QuestionPage, Example):
    """A question in the dialog."""

    question = "Do this with data?"
    consequence = "The consequence in one or two sentences."
    label = "Do it"
    message = "It was confirmed."
    danger = False

    def words(self) -> Mapping[str, object]:
        return {}

    def do(self) -> None:
        """Change nothing: it is an example."""


class StyleguideDanger(StyleguideQuestion):
    """A question in the dialog before something is lost."""

    label = "Delete"
    danger = True


class StyleguideForm(SheetPage, Example):
    """A form in the dialog."""

    heading = "A form in the dialog"

    def form(self, data: QueryDict | None = None) -> Form:
        return examples.ExampleForm(data)

    def save(self, form: Form) -> HttpResponse:
        return self.go(HOME, message="Saved.")

    def about(self) -> str:
        return "A sentence about its effect."
