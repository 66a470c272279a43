"""Labels of clients, derived from their User-Agent; informational only."""

import re
from dataclasses import dataclass

from provisioning.identity.models import SignIn

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
