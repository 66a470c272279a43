"""Rules for every page that links lead to: texts that turn the direction of writing turn no text beside them, and
the labels of controls have what is seen.

The pages are those that links lead to, some 100 of them: seconds for all together.
"""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import pytest
from django.conf import settings

from portal.dashboard.words.names import bdi
from provisioning.common.errors import UnavailableError
from provisioning.hosts import calls
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People
from tests.support.hostile import TURNED, turn_texts
from tests.support.pages import Document, walk
from tests.support.tables import each_row

BY_THEMSELVES = {"bdi", "title", "option", "textarea", "script", "pre", "code", "text"}
"""Elements that hold a name alone, or text that is copied as it is."""
ISOLATED = re.compile("\N{FIRST STRONG ISOLATE}[^\N{POP DIRECTIONAL ISOLATE}]*\N{POP DIRECTIONAL ISOLATE}")


def mixed(page: Document) -> set[str]:
    """Return the texts in which a name stands among other words."""
    result = set()
    for text, element in page.texts():
        rest = ISOLATED.sub("", text)
        if TURNED in rest and not BY_THEMSELVES & {each.tag for each in element.up()}:
            result.add(text.strip())
    return result


def words(text: str) -> str:
    """Return the letters and digits of a text, as somebody says them who speaks to the computer."""
    return re.sub(r"[\W_]+", " ", text).casefold().strip()


def mislabelled(page: Document) -> set[str]:
    """Return the texts of controls whose label for screen readers does not have what is seen (WCAG 2.5.3)."""
    seen: dict[int, list[str]] = {}
    owners = {}
    for text, element in page.texts():
        around = list(element.up())
        if any("visually-hidden" in each.attributes.get("class", "") or each.tag == "title" for each in around):
            continue
        owner = next((each for each in around if each.tag in {"a", "button"} and "aria-label" in each.attributes), None)
        if owner is not None:
            owners[id(owner)] = owner
            seen.setdefault(id(owner), []).append(text)
    shown = [(owners[key], part) for key, texts in seen.items() for part in " ".join(texts).split("…")]
    return {part for owner, part in shown if words(part) not in words(owner.attributes["aria-label"])}


@pytest.mark.slow
@pytest.mark.usefixtures("town")
def test_texts_turn_no_text_and_labels_have_what_is_seen(
    signed_in: SignedIn, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "call", mock.Mock(side_effect=UnavailableError(calls.NO_ANSWER)))
    client = signed_in(people.operator)
    turn_texts()
    pages = 0
    wrong = {}
    for path, page in walk(client, "/", of_each=1):
        pages += 1
        result = mixed(page) | {f"label: {text}" for text in mislabelled(page)}
        if sum(each.tag == "main" for each in page.elements) > 1:
            result.add("two main elements")
        if any(each.attributes.get("class") == "hostile" for each in page.elements):
            result.add("a text is markup")
        if result:
            wrong[path] = result
    assert pages > 60
    assert not wrong, "\n".join(f"{path}: {sorted(texts)}" for path, texts in wrong.items())


def test_moments_are_drawn_by_one_tag() -> None:
    """By ``when`` and ``ago``: with the moment that clock.js writes in the browser's zone, and a title in UTC."""
    folder = Path(settings.BASE_DIR) / "templates" / "dashboard"
    wrong = [str(path) for path in folder.rglob("*.html") if re.search(r"\|(?:date|time)\b|\bUTC\b", path.read_text())]
    assert not wrong


@each_row("name", ["web", "", "server 1", "größe", "服务器"])
def test_ordinary_names_stay_as_they_are_in_sentences(name: str) -> None:
    assert bdi(name) == name


@each_row("name", ["سرور", f"{TURNED}gnp.exe", "\u2069\u2069x\u202e", "\u2067open"])
def test_a_name_that_turns_is_closed_in_sentences(name: str) -> None:
    made = bdi(name)
    depth = 0
    for number, character in enumerate(made):
        depth += {"\u2066": 1, "\u2067": 1, "\u2068": 1, "\u2069": -1}.get(character, 0)
        assert depth > 0 or number == len(made) - 1
    assert depth == 0
