"""Rules and routes name the same operations: what the documentation says a rule guards is what it guards."""

from __future__ import annotations

from django.contrib import admin as django_admin

from portal.api.compute.server_actions import ACTIONS
from portal.api.openapi.policy_page import operations_of_rules
from portal.dashboard.frame.pages import Page
from portal.ops.admin.base import Ruled, Written
from provisioning.identity.policies import RULES
from tests.policy.routes import nameless, operations, pages, patterns, sockets


def test_a_rule_lists_every_operation_that_asks_it() -> None:
    wrong, known = [], operations_of_rules()
    for (method, path), view in operations():
        name = view.rules.get(method)
        if name is None:
            wrong += [] if method in view.public_methods else [f"{method} {path} asks no rule"]
            continue
        listed = {(method, nameless(where)) for method, where in known[name]}
        if (method, path) not in listed:
            wrong.append(f"{name} does not list {method} {path}")
    assert not wrong, "\n" + "\n".join(sorted(wrong))


def test_every_operation_that_a_rule_lists_is_served() -> None:
    served = {operation for operation, _ in operations(public=True)}
    served |= {("HEAD", path) for method, path in served if method == "GET"} | pages() | sockets()
    wrong = [
        f"{name} lists {method} {path}"
        for name, listed in operations_of_rules().items()
        for method, path in listed
        if (method, nameless(path)) not in served
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_action_of_a_server_is_listed_by_the_rule_it_asks() -> None:
    path = "/servers/{server_id}/action"
    listed = {
        where.removeprefix(path).strip(" ()"): name
        for name, operations_of_it in operations_of_rules().items()
        for method, where in operations_of_it
        if method == "POST" and where.startswith(f"{path} (")
    }
    assert listed == {name: action.rule for name, action in ACTIONS.items()}


OPEN_PAGES = {
    *("Overview", "ProjectSearch", "Profile", "UserActionPage", "Search", "Star", "Starred"),
    *("BulkAction", "BatchList", "BatchPage", "BatchDismiss", "BatchUndo"),
}
"""Pages for everybody who is signed in; what they show and do has rules of its own."""


def test_every_page_behind_the_sign_in_asks_a_rule() -> None:
    views = [getattr(pattern.callback, "view_class", None) for pattern in patterns("portal.dashboard.urls")]
    pages_of_it = {view for view in views if view is not None and issubclass(view, Page)}
    assert {view.__name__ for view in pages_of_it if not view.rule} == OPEN_PAGES
    assert {view.rule for view in pages_of_it if view.rule} - RULES.keys() == set()


def test_every_page_and_action_of_the_admin_asks_a_rule() -> None:
    wrong = []
    for model, page in django_admin.site._registry.items():
        assert isinstance(page, Ruled)
        requested = {"view", *(action if isinstance(action, str) else action.__name__ for action in page.actions)}
        if isinstance(page, Written):
            requested |= {name for name in ("add", "change", "delete") if _is_open(page, f"has_{name}_permission")}
        wrong += [f"{model._meta.label}: {name}" for name in sorted(requested - page.rules.keys())]
        wrong += [f"{model._meta.label}: no rule {rule}" for rule in page.rules.values() if rule not in RULES]
    assert not wrong, "\n" + "\n".join(wrong)


def _is_open(page: Written, permission: str) -> bool:
    """Whether the page leaves this permission to the rules."""
    return getattr(type(page), permission) is getattr(Written, permission)
