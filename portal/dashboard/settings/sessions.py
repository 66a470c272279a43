"""Sessions of the user in browsers and programs, and their revocation."""

from collections.abc import Mapping
from typing import Any

from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.settings.base import SettingsPage
from portal.dashboard.settings.listing import END, READ, SESSIONS, client_of
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY
from provisioning.identity.models import SignIn
from provisioning.identity.selectors.tokens import sign_ins_of
from provisioning.identity.services.ec2 import METHOD
from provisioning.identity.services.sign_ins import end_other_sign_ins, end_sign_in

LIST = "dashboard:settings_sessions"


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


class Sessions(SessionPage, ListPage):
    """The list of browsers and programs with a valid token."""

    records = SESSIONS
    rule = READ
    template = "dashboard/settings/sessions.html"
    heading = "Sessions and tokens"
    parents = (("Settings", "dashboard:settings"),)
    lead = "Browsers and programs that are signed in as you. When you end a session, its next request is refused."

    def extra_context(self) -> Mapping[str, Any]:
        others = sign_ins_of(self.user.id).exclude(id=self.context.sign_in_id or NOBODY)
        return {"can_end_others": self.may(END) and others.exists()}


class SessionEnd(QuestionPage, SessionPage):
    """Asks for confirmation, and ends one session."""

    question = "End the session of {name}?"
    label = "End session"
    message = "The session of {name} has ended."
    stays = True

    def find(self) -> None:
        sign_in = sign_ins_of(self.user.id).filter(id=self.kwargs["sign_in_id"]).first()
        if sign_in is None:
            raise NotFoundError("The session does not exist.")
        self.record = sign_in

    def text(self) -> str:
        return f"Its next request is refused. {_again(self.record)}".strip()

    def name(self) -> str:
        return client_of(self.record).name

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
