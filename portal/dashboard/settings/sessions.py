"""Sessions of the user in browsers and programs, and their revocation."""

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse

from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.settings import programs
from portal.dashboard.settings.base import SettingsPage
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import SignIn
from provisioning.identity.selectors.tokens import sign_ins_of
from provisioning.identity.services.ec2 import METHOD
from provisioning.identity.services.sign_ins import end_other_sign_ins, end_sign_in

LIST = "dashboard:settings_sessions"
END = "novella:end_sign_in"


def _again(sign_in: SignIn) -> str:
    """Explain how to keep a program from signing in again."""
    if sign_in.browser:
        return ""
    if sign_in.application_credential is not None:
        return "Its application credential lets it sign in again: delete that as well."
    if METHOD in sign_in.methods:
        return "Its EC2 credential lets it sign in again: revoke that as well."
    return "A program that knows your password can sign in again: change the password."


class SessionPage(SettingsPage):
    """Base of the pages about the user's sessions."""

    own_page = LIST
    rule = END


class Sessions(SessionPage):
    """The list of browsers and programs with a valid token."""

    rule = "novella:list_sign_ins"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the sessions, this browser first."""
        sign_ins = sign_ins_of(self.user)
        rows = [
            {"sign_in": each, "client": programs.client_of(each), "here": each.id == self.context.sign_in_id}
            for each in sorted(sign_ins, key=lambda each: each.id != self.context.sign_in_id)
        ]
        return self.page(
            "dashboard/settings/sessions.html",
            {
                "rows": rows,
                "others": sum(not row["here"] for row in rows),
                "can_end": self.may(END),
            },
        )


class SessionEnd(QuestionPage, SessionPage):
    """Asks for confirmation, and ends one session."""

    question = "End the session of {name}?"
    label = "End session"
    message = "The session of {name} has ended."
    stays = True

    def find(self) -> None:
        sign_in = next((each for each in sign_ins_of(self.user) if each.id == self.kwargs["sign_in_id"]), None)
        if sign_in is None:
            raise NotFoundError("The session does not exist.")
        self.record = sign_in

    def text(self) -> str:
        return f"Its next request is refused. {_again(self.record)}".strip()

    def name(self) -> str:
        return programs.client_of(self.record).name

    def do(self) -> None:
        end_sign_in(self.record)


class SessionsEnd(QuestionPage, SessionPage):
    """Asks for confirmation, and ends all other sessions."""

    question = "End all other sessions?"
    consequence = (
        "Every other browser and every program that is signed in as you is refused at its next "
        "request. This browser stays signed in."
    )
    label = "End all others"
    stays = True

    def words(self) -> Mapping[str, object]:
        return {}

    def do(self) -> None:
        self.ended = end_other_sign_ins(self.user, keep=self.context.sign_in_id)

    def result(self, words: Mapping[str, object]) -> str:
        return f"{'1 session has' if self.ended == 1 else f'{self.ended} sessions have'} ended."
