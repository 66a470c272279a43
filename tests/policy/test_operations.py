"""Rules and routes name the same operations: what the documentation says a rule guards is what it guards."""

from __future__ import annotations

from portal.api.compute.server_actions import ServerActionView
from provisioning.identity.policies import RULES
from tests.policy.routes import nameless, operations, pages, sockets


def test_a_rule_lists_every_operation_that_asks_it() -> None:
    wrong = []
    for (method, path), view in operations():
        name = view.rules.get(method)
        if name is None:
            wrong += [] if method in view.public_methods else [f"{method} {path} asks no rule"]
            continue
        listed = {(method, nameless(where)) for method, where in RULES[name].operations}
        if (method, path) not in listed:
            wrong.append(f"{name} does not list {method} {path}")
    assert not wrong, "\n" + "\n".join(sorted(wrong))


def test_every_operation_that_a_rule_lists_is_served() -> None:
    served = {operation for operation, _ in operations(public=True)}
    served |= {("HEAD", path) for method, path in served if method == "GET"} | pages() | sockets()
    wrong = [
        f"{rule.name} lists {method} {path}"
        for rule in RULES.values()
        for method, path in rule.operations
        if (method, nameless(path)) not in served
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_action_of_a_server_is_listed_by_the_rule_it_asks() -> None:
    path = "/servers/{server_id}/action"
    listed = {
        where.removeprefix(path).strip(" ()"): rule.name
        for rule in RULES.values()
        for method, where in rule.operations
        if method == "POST" and where.startswith(f"{path} (")
    }
    assert listed == {name: action.rule for name, action in ServerActionView.actions.items()}
