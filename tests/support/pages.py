"""Pages as a browser would read them: their elements, and every page that links lead to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path

from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import Resolver404, resolve

from portal.common.front_end import bundles


class Element:
    """An element of a page, with those around it."""

    def __init__(self, tag: str, attributes: Mapping[str, str], around: Element | None) -> None:
        self.tag, self.attributes, self.around = tag, attributes, around
        self.text = ""

    def up(self) -> Iterator[Element]:
        """Yield the element and those around it, from the inside."""
        element: Element | None = self
        while element is not None:
            yield element
            element = element.around


class Document(HTMLParser):
    """The elements of a page."""

    VOID = {"input", "link", "meta", "br", "hr", "img", "rect", "line", "circle", "path"}

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._texts: list[tuple[str, Element]] = []
        self._open: Element | None = None
        self.feed(page)
        self.ids = {each.attributes["id"]: each for each in self.elements if "id" in each.attributes}
        self.labelled = {each.attributes.get("for") for each in self.elements if each.tag == "label"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self._open)
        self.elements.append(element)
        if tag not in self.VOID:
            self._open = element

    def handle_endtag(self, tag: str) -> None:
        if self._open is not None and tag not in self.VOID:
            assert self._open.tag == tag
            self._open = self._open.around

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._texts.append((data, self._open))
        for each in self._open.up() if self._open else ():
            each.text += data

    def controls(self, name: str) -> list[Element]:
        return [
            each
            for each in self.elements
            if each.tag in {"input", "select", "textarea"} and each.attributes.get("name") == name
        ]

    def has_label(self, control: Element) -> bool:
        around = any(each.tag == "label" for each in control.up())
        return around or "aria-label" in control.attributes or control.attributes.get("id") in self.labelled

    def descriptions(self, control: Element) -> list[str]:
        """Return the texts that describe a control or the group that it is in."""
        keys = " ".join(each.attributes.get("aria-describedby", "") for each in control.up()).split()
        return [self.ids[key].text.strip() for key in keys]

    def texts(self) -> Iterator[tuple[str, Element]]:
        """Yield every text with the element that it is in."""
        yield from self._texts


def walk(client: Client, *begin: str, of_each: int = 3) -> Iterator[tuple[str, Document]]:
    """Yield the pages, menus and questions of the dashboard that links lead to, at most ``of_each`` of one route."""
    waiting, known = list(begin), set(begin)
    taken: Counter[str] = Counter()
    while waiting:
        path = waiting.pop(0)
        route = resolve(path.partition("?")[0]).view_name
        if taken[route] >= of_each or not route.startswith("dashboard:"):
            continue
        taken[route] += 1
        answer = client.get(path)
        if not answer.get("Content-Type", "").startswith("text/html") or answer.status_code != 200:
            continue
        document = Document(answer.content.decode())
        yield path, document
        for element in document.elements:
            for address in (element.attributes.get("href", ""), element.attributes.get("hx-get", "")):
                link = address.partition("#")[0]
                if link.startswith("/") and link not in known and _leads(link):
                    known.add(link)
                    waiting.append(link)


def static_file(name: str) -> bytes | None:
    """Return a file below ``/static/``, also a bundle, which is not on disk; None if there is none."""
    if (made := bundles.MADE.get(name.removeprefix("bundles/"))) is not None:
        return str(made()).encode()
    result = finders.find(name)
    return Path(str(result)).read_bytes() if result else None


def _leads(link: str) -> bool:
    try:
        resolve(link.partition("?")[0].partition("#")[0])
    except Resolver404:
        return False
    return not link.startswith(("/static/", "/admin/"))
