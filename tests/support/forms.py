"""A browser that fills and submits the forms of Novella's pages, and remembers what their links lead to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.urls import NoReverseMatch, Resolver404, ResolverMatch, resolve, reverse
from playwright.sync_api import ConsoleMessage, Error, Page, Response

NEVER = "the thing was not created"
FIRST = "*"
"""The first choice that is not empty."""
PATIENCE = 60.0
"""Seconds for which a step is tried that waits for work in the background."""
SUPERSEDED = ("htmx:afterRequest", "htmx:sendAbort")
"""The message that htmx writes to the console when a newer request replaces an older one."""

ADDRESSES = """() => [...document.querySelectorAll('[href], form, [formaction], [hx-get], [hx-post]')].flatMap((each) =>
    ['href', 'action', 'formaction', 'hx-get', 'hx-post'].map((name) => each.getAttribute(name)).filter(Boolean)
).filter((each) => each.startsWith('/'))"""
ACTION = "(form) => form.method === 'post' ? form.getAttribute('action') || location.pathname : ''"
FORMS = """() => [...document.querySelectorAll('form')].filter((each) => each.method === 'post').flatMap((form) =>
    [...form.elements].filter((each) => each.type === 'submit').map((each) =>
        each.getAttribute('formaction') || form.getAttribute('action') || location.pathname))"""
FILL = """(form, values) => {
    const missing = [];
    const label = (each) => each.labels?.[0]?.textContent.trim().split(/\\s/)[0];
    for (const [name, value] of Object.entries(values)) {
        const found = [...form.elements].filter((each) => each.name === name && each.type !== 'hidden');
        const wanted = [value].flat().map(String);
        const fits = (each) => wanted.includes(each.value) || wanted.includes(label(each)) || value === true;
        const [first] = found;
        if (!first) missing.push(name);
        else if (first.type === 'radio' || first.type === 'checkbox') {
            const chosen = value === '*' ? found.filter((each) => each.value).slice(0, 1) : found.filter(fits);
            for (const each of found) each.checked = chosen.includes(each);
        } else if (first.tagName === 'SELECT') {
            const offered = [...first.options];
            const chosen = value === '*' ? offered.filter((each) => each.value).slice(0, 1)
                : offered.filter((each) => wanted.includes(each.value) || wanted.includes(each.text.trim()));
            if (!chosen.length) missing.push(`${name}: one of ${offered.map((each) => each.value)}`);
            for (const each of offered) each.selected = chosen.includes(each);
        } else first.value = value;
        for (const each of found) each.dispatchEvent(new Event('change', {bubbles: true}));
    }
    return missing;
}"""
FIELDS = "(form) => [...form.elements].filter((each) => each.name && each.type !== 'hidden').map((each) => each.name)"
TROUBLE = """() => [...document.querySelectorAll(
    '.field-error, .toast-note.error, .errornote, .errorlist li, .messagelist .error'
)].map((each) => each.textContent.trim()).filter(Boolean)"""

WORDS = ("button", "action", "resources", "bulk_action")
"""The parts of an address that say what its form does."""

Value = str | bool | list[str] | Callable[["Visitor"], str]


@dataclass(frozen=True)
class Step:
    """A form to submit: that of a URL name, with the values of some fields; the others stay as they are.

    ``of`` names the thing whose form it is, ``keep`` the thing that it creates; ``kind`` is the first part of the
    address of that thing, where it is not the form's.  ``kwargs`` are further parts of the form's address, ``at`` is
    the page where it is.  ``waits``: the form is there, or is accepted, only when work in the background has ended.
    ``button`` selects the button to press, where it is not the form's first.
    """

    route: str
    values: Mapping[str, Value] = field(default_factory=dict)
    of: str = ""
    keep: str = ""
    kind: str = ""
    kwargs: Mapping[str, str] = field(default_factory=dict)
    at: str = ""
    waits: bool = False
    button: str = ""

    @property
    def key(self) -> str:
        return ":".join([self.route, *self.kwargs.values()])


def match_of(address: str) -> ResolverMatch | None:
    try:
        return resolve(urlsplit(address).path)
    except Resolver404:
        return None


class Visitor:
    """One person at a browser."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.seen: dict[str, list[str]] = {}
        self.forms: set[str] = set()
        self.ids: dict[str, str] = {}
        self.newest: dict[str, str] = {}
        self.complaints: list[str] = []
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(SUPERSEDED):
            self.complaints.append(message.text)

    def go(self, path: str) -> Response | None:
        answer = self.page.goto(self.url + path)
        self.scan()
        return answer

    def scan(self) -> None:
        """Remember where the page's links and forms lead; what is seen for the first time is the newest."""
        for address in self.page.evaluate(ADDRESSES):
            path = address.partition("#")[0]
            result = match_of(path)
            if result is None or path in self.seen.setdefault(result.view_name, []):
                continue
            self.seen[result.view_name].append(path)
            if result.kwargs:
                self.newest[path.split("/")[1]] = str(next(iter(result.kwargs.values())))
        for address in self.page.evaluate(FORMS):
            result = match_of(address)
            if result is not None:
                self.forms.add(key_of(result))

    def path_of(self, step: Step) -> str:
        """Return the address of a step's page."""
        if step.at:
            return step.at.format(**self.ids)
        path = self._address_of(step)
        view = getattr(resolve(urlsplit(path).path).func, "view_class", None)
        if view is None or hasattr(view, "get") or not step.of:
            return path
        return f"/{path.split('/')[1]}/{self.ids[step.of]}/"  # the form is on the page of the thing

    def _address_of(self, step: Step) -> str:
        known = self.ids.get(step.of, "")
        seen = [path for path in self.seen.get(step.route, []) if known in path]
        if not step.of:
            seen = [path for path in seen if "?" not in path]  # without the choice of a page it was on
        for path in reversed(seen):
            result = match_of(path)
            if result and all(str(result.kwargs.get(name)) == value for name, value in step.kwargs.items()):
                return path
        if step.of:
            return reverse(step.route, args=[known, *step.kwargs.values()])
        return reverse(step.route, kwargs=step.kwargs)

    def submit(self, step: Step) -> str:
        """Open a form's page, fill and submit it; return what went wrong, empty for a success."""
        self.complaints.clear()
        if step.of and step.of not in self.ids:
            return NEVER
        try:
            path = self.path_of(step)
        except NoReverseMatch:
            return "no page leads there"
        try:
            answer = self.go(path)
        except Error as error:
            self.page.goto("about:blank")
            return f"{path}: {error.message.splitlines()[0]}"
        if answer is None or not answer.ok:
            return f"{path} is answered {answer.status if answer else 'nothing'}"
        form = self._form(step)
        if form is None:
            return f"{path} ({self.page.url}) has no such form"
        values = {name: value(self) if callable(value) else value for name, value in step.values.items()}
        for name in [each for each in values if form.query_selector(f'[name="{each}"].admin-autocomplete')]:
            self._search(name, str(values.pop(name)))
        missing = form.evaluate(FILL, values)
        if missing:
            return f"{path} has no {missing}, but {form.evaluate(FIELDS)}"
        return self._send(step, form)

    def _form(self, step: Step) -> Any:
        if step.button:
            button = self.page.query_selector(step.button)
            return (
                button.evaluate_handle("(each) => each.form ?? each.closest('form')").as_element() if button else None
            )
        for form in self.page.query_selector_all("form"):
            action = form.evaluate(ACTION)
            result = match_of(action) if action else None
            if (
                result is not None
                and result.view_name == step.route
                and not form.evaluate("(each) => each.id === 'logout-form'")
            ):
                return form
        return None

    def _search(self, name: str, term: str) -> None:
        """Choose the first thing that a field of the admin finds."""
        self.page.locator(f".select2-selection[aria-labelledby=select2-id_{name}-container]").click()
        self.page.locator(".select2-search__field").fill(term)
        self.page.locator(".select2-results__option", has_text=term).first.click()

    def _send(self, step: Step, form: Any) -> str:
        button = self.page.query_selector(step.button) if step.button else form.query_selector('[type="submit"]')
        if button is None:
            return "there is no button"
        try:
            with self.page.context.expect_event("response", _answers(button), timeout=1000 * PATIENCE) as sent:
                button.evaluate("(each) => { window.submitted = true; setTimeout(() => each.click()); }")
            status = sent.value.status
            if self._leaves(sent.value):
                self.page.wait_for_function("() => !window.submitted && document.readyState === 'complete'")
        except Error as error:
            return f"nothing was sent: {error}"
        trouble = self.page.evaluate(TROUBLE)
        if status >= 400 or trouble or self.complaints:
            return f"{status} {trouble} {self.complaints} at {self.page.url}, {form_fields(self.page)}"
        self.newest.clear()
        self.scan()
        if step.keep:
            kind = step.kind or self.path_of(step).split("/")[1]
            began = time.monotonic()
            while kind not in self.newest and time.monotonic() - began < PATIENCE:
                self.go(f"/{kind}/")  # its links appear when it is ready
            if kind not in self.newest:
                return f"nothing new of {kind}"
            self.ids[step.keep] = self.newest[kind]
        return ""

    def _leaves(self, answer: Response) -> bool:
        """Whether the page is replaced by what follows an answer: not by data for a script, nor by another window."""
        if not answer.request.is_navigation_request():
            return False
        try:
            return answer.frame.page is self.page
        except Error:  # the window that was opened has no frame yet
            return False

    def take(self, steps: list[Step]) -> dict[str, str]:
        """Submit all of them; return what went wrong, by step."""
        failed = {}
        for number, step in enumerate(steps):
            began = time.monotonic()
            answer = self.submit(step)
            while answer not in {"", NEVER} and step.waits and time.monotonic() - began < PATIENCE:
                self.page.wait_for_timeout(300)
                self.go(urlsplit(self.page.url).path)  # its links may appear now
                answer = self.submit(step)
            if answer:
                failed[f"{number} {step.key}"] = answer
        return failed


def _answers(button: Any) -> Callable[[Response], bool]:
    """Return whether an answer is that to this button's form: some send another one when a field changes."""
    path = urlsplit(button.evaluate(f"(each) => each.getAttribute('formaction') || ({ACTION})(each.form)")).path
    return lambda answer: answer.request.method == "POST" and urlsplit(answer.url).path == path


def key_of(resolver_match: ResolverMatch) -> str:
    """Return by which name the table knows a form's address."""
    words = [str(resolver_match.kwargs[part]) for part in WORDS if resolver_match.kwargs.get(part)]
    return ":".join([resolver_match.view_name, *words])


def form_fields(page: Page) -> list[str]:
    result: list[str] = page.evaluate(
        "() => [...document.querySelectorAll('main form [name]')].map((each) => each.name)"
    )
    return result
