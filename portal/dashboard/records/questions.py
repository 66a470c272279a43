"""Pages that ask for confirmation before an action: one declaration for each question."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard.frame.pages import Page
from portal.dashboard.records.views import name_of
from portal.dashboard.words.names import bdi


@dataclass(frozen=True, slots=True)
class Question:
    """The texts of a confirmation. In ``question`` and ``message``, ``{name}`` is a word of ``QuestionPage.words``."""

    question: str
    text: str
    label: str
    message: str
    """Shown after the action."""
    danger: bool = True
    """Whether the button is red and *Cancel* has the focus."""


class QuestionPage(Page):
    """Base of the pages that run an action after confirmation. They are left of the panel's base in the list of bases.

    ``GET`` asks, ``POST`` to the same address runs ``do``. In ``question`` and ``message``, ``{name}`` is the record's
    name.
    """

    question: ClassVar[str] = "Delete {name}?"
    consequence: ClassVar[str] = ""
    label: ClassVar[str] = "Delete"
    message: ClassVar[str] = "{name} was deleted."
    danger: ClassVar[bool] = True
    stays: ClassVar[bool] = False
    """Whether to return to the page that ``back`` returns, because the record still exists; otherwise to the list."""
    record: Any
    """The record that the question is about, found by the base of the panel's pages or by ``find``."""

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        self.find()
        question, back, blocked = self.as_question(), self.back(), self.blocked()
        return self.ask(
            {
                "title": question.question.format_map(self.words()),
                "text": blocked or self.text(),
                "action": request.get_full_path(),
                "label": "" if blocked else question.label,
                "danger": question.danger,
                "back": reverse(back) if ":" in back else back,
            }
        )

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Run the action and redirect."""
        self.find()
        words = self.words()
        self.do()
        return self.go(self.success_url(), message=self.result(words))

    def find(self) -> None:
        """Set the attributes that texts and action use, unless the policy check has. Raises NotFoundError."""

    def as_question(self) -> Question:
        return Question(self.question, self.consequence, self.label, self.message, self.danger)

    def text(self) -> str:
        """Return the consequence that the confirmation describes."""
        return self.as_question().text

    def blocked(self) -> str:
        """Return the reason why the action cannot succeed now, as a sentence; empty if it can succeed.

        With a reason, the confirmation has no button.
        """
        return ""

    def words(self) -> Mapping[str, object]:
        """Return the words of the texts."""
        return {"name": bdi(self.name())}

    def name(self) -> str:
        return name_of(self.record)

    def do(self) -> None:
        """Call the service of the confirmed action. Its errors are shown in the dialog."""
        raise NotImplementedError

    def result(self, words: Mapping[str, object]) -> str:
        """Return the message after the action, with the words from before it."""
        return self.as_question().message.format_map(words)

    def success_url(self) -> str:
        """Return the page to redirect to."""
        return self.back() if self.stays else self.back_to
