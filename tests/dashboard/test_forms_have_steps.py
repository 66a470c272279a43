"""Every address of the dashboard that takes a form has values with which the browser tests submit it."""

from __future__ import annotations

import re

from django.urls import get_resolver

from provisioning.batches.kinds import KINDS
from provisioning.compute.actions.registry import with_buttons
from tests.dashboard.test_every_form import patterns
from tests.support.form_steps import ELSEWHERE, OPERATOR, USER
from tests.support.one_machine import CHECKOUT

OF_USERS = {"disable", "enable", "sign-out", "delete"}


def test_every_form_is_submitted_by_a_step() -> None:
    dashboard = get_resolver("portal.dashboard.urls")
    takes = {f"dashboard:{name}" for name, each in patterns(dashboard) if hasattr(view_of(each), "post")}
    takes -= {"dashboard:instance_action", "dashboard:bulk", "dashboard:user_action"}
    buttons = {each.button.name for each in with_buttons() if each.button}
    takes |= {f"dashboard:instance_action:{name}" for name in buttons if f"dashboard:instance_{name}" not in takes}
    takes |= {f"dashboard:bulk:{kind.name}:{each.name}" for kind in KINDS.values() for each in kind.actions}
    takes |= {f"dashboard:user_action:{action}" for action in OF_USERS}
    submitted = {step.key for step in [*USER, *OPERATOR]}
    assert takes - submitted == ELSEWHERE.keys()


def test_what_no_step_submits_is_submitted_by_a_test_that_exists() -> None:
    for form, place in ELSEWHERE.items():
        path, _, why = place.partition(": ")
        assert (CHECKOUT / path).is_file(), form
        assert why, form


def test_no_page_sends_a_form_in_a_type_that_the_web_server_refuses() -> None:
    """Multipart forms are answered 415: files are sent by themselves, and the rest urlencoded."""
    for path in (CHECKOUT / "templates").rglob("*.html"):
        assert not re.search(r"enctype|hx-encoding", path.read_text()), path
    for path in (CHECKOUT / "static/js").glob("*.js"):
        assert not re.search(r"body: *(data\b|new FormData)", path.read_text()), path


def view_of(pattern: object) -> object:
    return getattr(getattr(pattern, "callback", None), "view_class", None)
