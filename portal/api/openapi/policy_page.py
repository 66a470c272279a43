"""The policy rules as the page of the documentation, and as a file for operators to start from."""

import json
import re
from collections.abc import Iterator, Mapping

from portal.api.openapi.document import Endpoints, named
from provisioning.identity.policies import RULES, parts
from provisioning.identity.policies.base import EVERY_SCOPE, Operation, Rule

Operations = Mapping[str, tuple[Operation, ...]]
_SERVICE = re.compile(r"^/(compute/v2\.1|identity|image|network|volume/v3)(?=/)")


def operations_of_rules() -> Operations:
    """Return the operations of every rule: the operations of the views that check it, and the operations that the rule
    itself lists.

    If a rule lists an operation in more detail (``GET /v3/users?name={name}``), only that entry is returned.
    """
    found: dict[str, list[Operation]] = {name: [] for name in RULES}
    for rule, operation in _asked_by_views():
        listed = {(method, path.partition("?")[0]) for method, path in RULES[rule].operations}
        if operation not in found[rule] and operation not in listed:
            found[rule].append(operation)
    return {name: (*operations, *RULES[name].operations) for name, operations in found.items()}


def _asked_by_views() -> Iterator[tuple[str, Operation]]:
    """Yield the rule of each method of each view, with the method and the path below the service's address."""
    for path, view in dict.fromkeys((path, callback.cls) for path, _, _, callback in Endpoints().get_api_endpoints()):
        where = _SERVICE.sub("", named(view, path))
        offered = {name.upper() for name in view.http_method_names}
        yield from ((rule, (method, where)) for method, rule in view.rules.items() if method in offered)
        yield from ((rule, ("POST", f"{where} ({action})")) for action, rule in view.action_rules.items())


INTRODUCTION = """\
# Policy

<!-- Written by `manage.py show_policy --markdown > docs/policy.md`; a test fails when it is stale. -->

Rules have OpenStack's names: `os_compute_api:` of Nova, `identity:` of Keystone, those of Glance and Neutron without a
prefix, and `novella:` for operations that exist only here. A line of a policy file for OpenStack has the same meaning
here; rules for unsupported operations have no effect and are reported.

Every operation has one rule, and the API, the button of the dashboard, the WebSocket and the action in the Django admin
all check it. This page lists all rules with their defaults. Rules do not control visibility: the objects of a project
do not exist for other projects, whatever the rules. `HEAD` uses the rule of `GET` unless it has its own.

## Changing rules

Rules use the language of [oslo.policy](https://docs.openstack.org/oslo.policy/latest/). An operator changes them in a
YAML file, `policy.yaml` in the data folder or the file in `NOVELLA_POLICY_FILE`: one line for each changed rule with
its name and its check, both in quotes. All other rules keep their defaults.

```yaml
# Members read, and only administrators launch.
"os_compute_api:servers:create": "rule:admin_required"
# An additional role may stop and start servers; assign it with "openstack role add".
"os_compute_api:servers:stop": "role:caretaker or role:member"
"os_compute_api:servers:start": "role:caretaker or role:member"
# No user may upload images.
"upload_image": "!"
# An additional rule for use in other rules: its name has no colon.
"staff": "role:member and user_domain_id:default"
"os_compute_api:os-keypairs:create": "rule:staff"
```

A running cloud applies a changed file within two seconds, also to open pages and WebSockets. An invalid file (not YAML,
an unknown rule, an invalid check, a cycle of rules) prevents the start with a message that gives the reason. While the
cloud runs, an invalid or deleted file changes nothing: the previous rules remain and the log has the reason. A mistake
never allows anything.

`manage.py check_policy FILE` lists every problem of a file, and the rules that it changes. `manage.py show_policy`
prints all rules as a file to edit, with the defaults as comments.

## The language

| Check | Matches |
|---|---|
| `@` | every token |
| `!` | no token |
| `role:member` | users with the role, assigned directly, by a group, inherited or implied |
| `rule:admin_required` | every request that the other rule allows |
| `user_id:%(user_id)s` | the caller whose id is that of the object; likewise `project_id`, `domain_id` |
| `user_domain_id:default` | users of a domain; likewise `project_domain_id`, `project_id`, `domain_id` |
| `token_scope:domain` | tokens for a domain; likewise `project`, `system`, `unscoped` |
| `system_scope:all` | tokens for the system |

Checks are combined with `and`, `or`, `not` and parentheses. Rules of Compute, Image and Network have the object's
`project_id`; rules of Identity have the attributes in their default. Checks that query a server (`http:`) are rejected.

## Roles and scopes

A new cloud has the roles `reader` (reads), `member` (uses resources), `manager` (migrates servers, manages a domain)
and `admin`, each including the previous ones, and `service` for other services of the cloud. A token is scoped to a
project, a domain or the system, or is unscoped, and each rule lists the scopes for which it can be allowed: operations
on a project's resources need a token for that project, and other tokens get 403.

* **Administrators of the cloud** have `admin` on a project or on the system: rule `admin_required`.
* **Administrators of a domain** have `admin` on the domain and a token for it: rule `domain_admin`. They manage the
  users, groups, projects and assignments of that domain, cannot assign the roles `admin` and `service`, which apply to
  the whole cloud, and see no other domain.
* **Managers of a domain** have `manager` on it: rule `domain_manager`. They do the same except for the domain's roles,
  assign `manager`, `member` and `reader` only (rule `domain_managed_target_role`), and cannot change a user with
  `admin`.
* **Readers** have `reader` on a domain, which allows reading its content (rule `domain_reader`), or on the system,
  which allows reading all of Identity except the secrets of credentials.

Rules may let other users manage users and groups as well, for example a help desk. Only an administrator changes a user
or a group with the role `admin` or `service`, or with a role on the system or on another domain, in all pages and
requests: a new password for an operator, or membership in the operators' group, would be a privilege escalation. Names
of roles in rules are case-insensitive, so no role can be called `Admin`.
"""


def markdown() -> str:
    """Return ``docs/policy.md``."""
    operations = operations_of_rules()
    return INTRODUCTION + "".join(f"\n## {title}\n\n{_table(rules, operations)}" for title, rules in parts())


def _table(rules: list[Rule], operations: Operations) -> str:
    lines = ["| Rule | Default | Description | Operations | Token scopes |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(_cells(rule, operations[rule.name]))} |" for rule in rules]
    return "\n".join(lines) + "\n"


def _cells(rule: Rule, operations: tuple[Operation, ...]) -> Iterator[str]:
    yield f"`{rule.name}`"
    yield f"`{rule.check}`".replace("|", r"\|")
    yield rule.description
    yield "<br>".join(f"`{method} {path}`" for method, path in operations) or "used by other rules"
    yield "all" if rule.scopes == EVERY_SCOPE else ", ".join(rule.scopes)


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
    lines = "".join(f"#   {method} {path}\n" for method, path in operations)
    default = f"#{json.dumps(rule.name)}: {json.dumps(rule.check)}\n"
    changed = f"{json.dumps(rule.name)}: {json.dumps(check)}\n" if check is not None else ""
    return f"\n# {rule.description}\n{lines}{default}{changed}"
