"""The list of the user's sessions in browsers and programs."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, F, Q, Value, When
from django.utils.html import format_html

from portal.common.statuses import Status
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.declaration import Column, Empty, Filter, RecordList, SortKey, fixed, searched
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.identity import policy
from provisioning.identity.models import SignIn
from provisioning.identity.selectors.tokens import sign_ins_of

Row = dict[str, Any]
READ, END = "novella:list_sign_ins", "novella:end_sign_in"
HERE = Status("This browser", "ok", "check-circle-fill")
TIME = "muted num text-nowrap"
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


def _rows(context: RequestContext, sign_ins: Sequence[SignIn]) -> list[Row]:
    can_end = policy.allows(context, END, {"user_id": context.user_id})
    return [
        {"sign_in": each, "client": client_of(each), "here": here, "can_end": can_end and not here}
        for each in sign_ins
        for here in [each.id == context.sign_in_id]
    ]


def _client(row: Row) -> object:
    client, credential = row["client"], row["sign_in"].application_credential
    name = format_html(
        '<span class="with-icon" title="{}">{}<bdi>{}</bdi></span>',
        row["sign_in"].program,
        cells.icon(client.icon),
        client.name,
    )
    by = cells.sub(format_html("by <bdi>{}</bdi>", credential.name)) if credential else ""
    return cells.join(" ", (name, cells.status(HERE) if row["here"] else "", by))


def _time(key: str, label: str, *, ends: bool = False) -> Column:
    shown: Callable[[Any], object] = cells.when if ends else cells.ago

    def value(row: Row) -> Any:
        return getattr(row["sign_in"], key)

    return Column(key, label, lambda row: shown(value(row)), sort=key, plain=value, css=TIME, largest_first=not ends)


def _button(row: Row) -> object:
    if not row["can_end"]:
        return ""
    to, whose = "dashboard:settings_session_end", row["client"].name
    return cells.button("box-arrow-right", "End", whose, to, row["sign_in"].id, label="End the session of {}")


def _order(context: RequestContext) -> Sequence[SortKey]:
    """Return this browser first, then the last used."""
    return (Case(When(pk=context.sign_in_id or NOBODY, then=Value(0)), default=Value(1)), F("last_used_at").desc())


SESSIONS = RecordList[SignIn](
    key="sessions",
    model=SignIn,
    one="session",
    noun="sessions",
    rule=READ,
    row_id="session",
    url_name="dashboard:settings_sessions",
    records=lambda context, _: sign_ins_of(context.user_id or NOBODY),
    detail=lambda _, rows: rows.select_related("project", "application_credential"),
    rows=_rows,
    default="-last_used_at",
    order=_order,
    columns=(
        Column(
            "client", "Client", _client, sort="program", plain=lambda row: row["client"].name, css="name", titled=False
        ),
        columns.attribute("address", "Address", "sign_in", css="mono xsmall"),
        Column(
            "project",
            "Project",
            lambda row: cells.bdi(row["sign_in"].project.name) if row["sign_in"].project else "",
            sort="project__name",
            css="muted",
        ),
        _time("created_at", "First seen"),
        _time("last_used_at", "Last used"),
        _time("expires_at", "Until", ends=True),
    ),
    actions=_button,
    find="Find by client, address, project or credential",
    search=searched("program", "address", "project__name", "application_credential__name"),
    filters=(
        Filter(
            "kind",
            "Kind",
            fixed(("browser", "Browsers"), ("program", "Programs")),
            lambda _, value: Q(browser=value == "browser"),
            quick=True,
        ),
    ),
    named=lambda sign_in: client_of(sign_in).name,
    empty=Empty("person-check", "Nothing to show", "There are no sessions."),
)
