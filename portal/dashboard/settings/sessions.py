"""Sessions of the user in browsers and programs, and their revocation."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse

from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.settings.base import SettingsPage
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import SignIn
from provisioning.identity.selectors.tokens import sign_ins_of
from provisioning.identity.services.ec2 import METHOD
from provisioning.identity.services.sign_ins import end_other_sign_ins, end_sign_in

LIST = "dashboard:settings_sessions"
END = "novella:end_sign_in"

BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"),
    ("HeadlessChrome", "Chrome"),
    ("CriOS", "Chrome"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
"""Product in the User-Agent → name. The first match applies, because browsers also send products of later rows."""
SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
PHONES = {"iPhone", "iPad", "Android"}
PROGRAMS = {
    "openstack": "openstack command",
    "osc-lib": "openstack command",
    "python-openstackclient": "openstack command",
    "openstacksdk": "OpenStack SDK",
    "keystoneauth1": "OpenStack client",
    "gophercloud": "Gophercloud",
    "terraform": "Terraform",
    "hashicorp": "Terraform",
    "opentofu": "OpenTofu",
    "python-requests": "Python requests",
    "python-urllib": "Python",
    "curl": "curl",
    "wget": "Wget",
    "go-http-client": "Go program",
}
LONGEST = 48
_PRODUCT = re.compile(r"[^\s/]+(?:/[^\s/]+)?")


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
            {"sign_in": each, "client": client_of(each), "here": each.id == self.context.sign_in_id}
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


@dataclass(frozen=True, slots=True)
class ClientWords:
    """The label of a client: name and icon."""

    name: str
    icon: str


def client_of(sign_in: SignIn) -> ClientWords:
    if sign_in.browser:
        return browser(sign_in.program)
    return ClientWords(program(sign_in.program), "terminal")


def browser(text: str) -> ClientWords:
    """Return the label of a browser: ``Firefox on Linux``."""
    name = next((name for product, name in BROWSERS if f"{product}/" in text), "Browser")
    system = next((system for word, system in SYSTEMS if word in text), "")
    return ClientWords(f"{name} on {system}" if system else name, "phone" if system in PHONES else "window")


def program(text: str) -> str:
    """Return the label of a program: ``OpenStack SDK 4.4``."""
    match = _PRODUCT.match(text.strip())
    if match is None:
        return "A program without a name"
    product, _, version = match[0].partition("/")
    name = PROGRAMS.get(product.lower())
    if name is None:
        return text.strip()[:LONGEST]
    return f"{name} {'.'.join(version.split('.')[:2])}".strip()[:LONGEST]
