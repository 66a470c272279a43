"""The policy rules as the page of the documentation, and as a file for operators to start from."""

import json
from collections.abc import Iterator, Mapping

from portal.api.openapi.rule_operations import Operations, operations_of_rules
from provisioning.identity.policies import parts
from provisioning.identity.policies.base import EVERY_SCOPE, Operation, Rule

INTRODUCTION = """\
# Policy

<!-- Written by `manage.py show_policy --markdown > docs/policy.md`; a test fails when it is stale. -->

The names are OpenStack's: `os_compute_api:` of Nova, `identity:` of Keystone, those of Glance and Neutron without a
prefix, and `novella:` for what this cloud alone has. A line of an operator's own policy file for OpenStack means here
what it means there; rules for what this cloud does not do change nothing, and are reported.

Every operation of the cloud has one rule, and every way to it asks the same one: the API, the button of the dashboard,
the WebSocket, the action in the Django admin. This page lists them all with their defaults. Which objects there are for
a caller is not a matter of rules: a project's objects do not exist for other projects, whatever a rule says. `HEAD`
asks the rule of `GET` unless one is listed for it.

## Changing rules

Rules are written in the language of [oslo.policy](https://docs.openstack.org/oslo.policy/latest/). An operator changes
them in a YAML file, `policy.yaml` in the data folder unless `NOVELLA_POLICY_FILE` names another: one line for each rule
that differs, its name and its check, both in quotes. Rules that the file does not name keep their defaults.

```yaml
# Members look, and only administrators launch.
"os_compute_api:servers:create": "rule:admin_required"
# A role of our own may stop and start servers; give it with "openstack role add".
"os_compute_api:servers:stop": "role:caretaker or role:member"
"os_compute_api:servers:start": "role:caretaker or role:member"
# Nobody may upload images.
"upload_image": "!"
# A rule of our own, which others ask for: its name has no colon.
"staff": "role:member and user_domain_id:default"
"os_compute_api:os-keypairs:create": "rule:staff"
```

A running cloud takes a changed file within a second or two; open pages and WebSockets are asked again as well. A file
that cannot be used (no YAML, a rule that does not exist, a check that cannot be understood, rules that ask for each
other in a circle) stops the start with a sentence that says why. While the cloud runs, such a file changes nothing: the
rules before it stay in force and the log says what is wrong; the same goes for a file that disappears. Nothing is ever
allowed by mistake.

`manage.py check_policy FILE` lists every problem of a file before it is used, and which rules it changes.
`manage.py show_policy` prints all rules as a file to begin from, with the defaults as comments.

## The language

| Check | Holds for |
|---|---|
| `@` | everybody with a token |
| `!` | nobody |
| `role:member` | who has the role, directly, by a group, inherited or implied |
| `rule:admin_required` | whoever the other rule holds for |
| `user_id:%(user_id)s` | the caller whose id is that of the object; likewise `project_id`, `domain_id` |
| `user_domain_id:default` | users of a domain; likewise `project_domain_id`, `project_id`, `domain_id` |
| `token_scope:domain` | tokens for a domain; likewise `project`, `system`, `unscoped` |
| `system_scope:all` | tokens for the system |

Checks are joined by `and`, `or`, `not` and parentheses. Rules of Compute, Image and Network know the object's
`project_id`; those of Identity what their default names. Checks that ask another server (`http:`) are refused.

## Roles and scopes

A new cloud has the roles `reader` (looks), `member` (works), `manager` (moves servers, manages a domain) and `admin`,
each with what the one before it may, and `service`, for other services of the cloud.
A token is for a project, for a domain, for the system, or for nothing yet (unscoped), and each rule says for which of
them it may hold at all: what a project owns is worked on with a token for that project, and other tokens get 403 there.

* **Administrators of the cloud** have `admin` on a project or on the system: rule `admin_required`.
* **Administrators of a domain** have `admin` on the domain and a token for it: rule `domain_admin`. They look after the
  users, groups, projects and assignments of that domain, give nobody the roles `admin` and `service`, which count in
  the whole cloud, and see no other domain.
* **Managers of a domain** have `manager` on it: rule `domain_manager`. They do the same but for the domain's roles,
  give `manager`, `member` and `reader` only (rule `domain_managed_target_role`), and change nobody who is `admin`.
* **Readers** have `reader` on a domain, which lets them look at what is in it (rule `domain_reader`), or on the system,
  which lets them look at all of Identity but the secrets of credentials.

Rules may let others look after users and groups as well, a help desk for instance. Whoever is not an administrator
changes no user and no group that is one, or has the role `service`, or a role on the system or on another domain,
on no page and by no request: a new password for an operator, or a place in the operators' group, would be a way up.
Rules do not tell capital letters of roles apart, so no role is called `Admin`.
"""


def markdown() -> str:
    """Return ``docs/policy.md``."""
    operations = operations_of_rules()
    return INTRODUCTION + "".join(f"\n## {title}\n\n{_table(rules, operations)}" for title, rules in parts())


def _table(rules: list[Rule], operations: Operations) -> str:
    lines = ["| Rule | Default | What it allows | Operations | Tokens for |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(_cells(rule, operations[rule.name]))} |" for rule in rules]
    return "\n".join(lines) + "\n"


def _cells(rule: Rule, operations: tuple[Operation, ...]) -> Iterator[str]:
    yield f"`{rule.name}`"
    yield f"`{rule.check}`".replace("|", r"\|")
    yield rule.description
    yield "<br>".join(f"`{method} {path}`" for method, path in operations) or "named by other rules"
    yield "everything" if rule.scopes == EVERY_SCOPE else ", ".join(rule.scopes)


def sample(overrides: Mapping[str, str]) -> str:
    """Return all rules as YAML: defaults as comments, changed rules as they are, and rules only in the file at
    the end.
    """
    operations = operations_of_rules()
    text = ["# Every rule of this cloud. Lines that begin with # are the defaults.\n"]
    for title, rules in parts():
        text.append(f"\n### {title}\n")
        text += [_entry(rule, operations[rule.name], overrides.get(rule.name)) for rule in rules]
    own = [f"{json.dumps(name)}: {json.dumps(check)}\n" for name, check in overrides.items() if name not in operations]
    return "".join([*text, *(["\n### Rules of this file's own\n", *own] if own else [])])


def _entry(rule: Rule, operations: tuple[Operation, ...], check: str | None) -> str:
    asked = "".join(f"#   {method} {path}\n" for method, path in operations)
    default = f"#{json.dumps(rule.name)}: {json.dumps(rule.check)}\n"
    changed = f"{json.dumps(rule.name)}: {json.dumps(check)}\n" if check is not None else ""
    return f"\n# {rule.description}\n{asked}{default}{changed}"
