"""Plan of a roster's import, and its execution: all or nothing.

A plan compares the roster with the current records. It is a list of steps, each with a description, so that a dry run
prints the same as an import. Nothing is removed, and passwords of existing users are not changed.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from django.db import transaction

from provisioning.common.errors import NovellaError
from provisioning.identity.models import Domain, Group, Project, User
from provisioning.identity.selectors import dashboard_lists, lookups
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.domains import DEFAULT as DOMAIN
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.onboarding import new_password
from provisioning.identity.services.projects import create_project
from provisioning.identity.services.users import prepare_user, store_user, update_user
from provisioning.quotas import selectors as quota_selectors
from provisioning.quotas.services.limits import set_limit
from provisioning.rosters.file import Problems, Row

HASHING = 4
"""Number of threads that hash passwords."""

Key = tuple[str, str]
"""Domain id and name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One creation or update, with its description and the first line of the file that requires it."""

    line: int
    words: str
    run: Callable[[], object]


@dataclass(slots=True)
class NewUser:
    """A user to create."""

    line: int
    domain: Domain
    name: str
    email: str = ""
    password: str = field(default="", repr=False)
    generated: bool = False
    project: Key | None = None
    record: User | None = None


class Plan:
    """The steps for these rows; errors are added to ``problems``.

    ``only``: the project of all rows; then existing users only get roles, and keep their e-mail addresses.
    """

    def __init__(self, rows: Sequence[Row], problems: Problems, *, only: Project | None = None) -> None:
        """Read the records, with a constant number of queries, and collect the steps."""
        self._only = only
        self.steps: list[Step] = []
        self.new_users: dict[Key, NewUser] = {}
        self._problems = problems
        self._domains = self._find_domains(rows)
        self._roles = {role.name: role for role in lookups.roles()}
        rows = [row for row in rows if (row.domain or DOMAIN) in self._domains]
        self._users = self._find(User, ((row, row.user) for row in rows))
        self._projects = (
            {(only.domain_id, only.name): only}
            if only
            else self._find(Project, ((row, row.project) for row in rows if row.project))
        )
        self._groups = self._find(Group, ((row, name) for row in rows for name in row.groups))
        self._check(rows)
        if problems:
            return
        self._plan_groups(rows)
        self._plan_projects(rows)
        self._plan_users(rows)
        self._plan_memberships(rows)
        self._plan_roles(rows)

    @property
    def generated(self) -> list[NewUser]:
        """The new users with a generated password."""
        return [user for user in self.new_users.values() if user.generated]

    def knows(self, row: Row) -> bool:
        """Return whether the user of a row exists."""
        return self._key(row, row.user) in self._users

    def prepare(self) -> None:
        """Hash the passwords before the transaction, several in parallel."""

        def hash_one(user: NewUser) -> None:
            user.record = prepare_user(user.domain, user.name, password=user.password or None, email=user.email)

        with ThreadPoolExecutor(HASHING) as threads:
            list(threads.map(hash_one, self.new_users.values()))

    def carry_out(self, before_commit: Callable[[], object], *, keep: bool) -> None:
        """Run all steps and then ``before_commit`` in one transaction, which is rolled back unless ``keep``.

        An error of a step is added to the problems with its line, and rolls everything back.
        """
        with transaction.atomic():
            for step in self.steps:
                try:
                    step.run()
                except NovellaError as error:
                    self._problems.add(step.line, error.message)
                    transaction.set_rollback(True)
                    return
            before_commit()
            if not keep:
                transaction.set_rollback(True)

    def _key(self, row: Row, name: str) -> Key:
        return self._domains[row.domain or DOMAIN].id, name

    def _name_of(self, key: Key) -> str:
        """The name; with the domain's name, unless it is the default domain."""
        return key[1] if key[0] == DOMAIN else f"{key[1]} (domain {self._domains[key[0]].name})"

    def _step(self, line: int, words: str, run: Callable[[], object]) -> None:
        self.steps.append(Step(line, words, run))

    def _find_domains(self, rows: Sequence[Row]) -> dict[str, Domain]:
        """Return the domains by their name or id in the rows."""
        every = dashboard_lists.all_domains()
        result = {domain.name: domain for domain in every} | {domain.id: domain for domain in every}
        for row in rows:
            if (row.domain or DOMAIN) not in result:
                self._problems.add(row.line, f"There is no domain {row.domain or DOMAIN}.")
        return result

    def _find(self, model: type[lookups.Named], rows: Iterable[tuple[Row, str]]) -> dict[Key, lookups.Named]:
        names: dict[str, set[str]] = {}
        for row, name in rows:
            names.setdefault(self._key(row, name)[0], set()).add(name)
        return lookups.find_by_name(model, names)

    def _check(self, rows: Sequence[Row]) -> None:
        """Check the rows for duplicates of a user and project, and for contradictions."""
        claimed: dict[tuple[object, ...], tuple[int, object]] = {}
        for row in rows:
            user, project = self._key(row, row.user), self._key(row, row.project)
            for name in row.roles:
                if name not in self._roles:
                    known_roles = ", ".join(sorted(self._roles))
                    self._problems.add(row.line, f"There is no role {name}. There are: {known_roles}.")
            first, _ = claimed.setdefault(("row", user, project), (row.line, None))
            if first != row.line:
                self._problems.add(row.line, f"Line {first} has the same user and project.")
            claims: list[tuple[tuple[object, ...], object]] = [
                (("email", user), row.email),
                (("password", user), row.password),
                *((("quota_" + name, project), limit) for name, limit in row.quotas),
            ]
            for what, value in claims:
                if value == "":
                    continue
                first, known = claimed.setdefault(what, (row.line, value))
                if known != value:
                    self._problems.add(row.line, f"Line {first} has another {what[0]}.")

    def _plan_groups(self, rows: Sequence[Row]) -> None:
        new: set[Key] = set()
        for row in rows:
            for name in row.groups:
                key = self._key(row, name)
                if key not in self._groups and key not in new:
                    new.add(key)
                    self._step(row.line, f"create group {self._name_of(key)}", partial(self._make_group, row, key))

    def _make_group(self, row: Row, key: Key) -> None:
        self._groups[key] = create_group(self._domains[row.domain or DOMAIN], key[1])

    def _plan_projects(self, rows: Sequence[Row]) -> None:
        new: set[Key] = set()
        limits: dict[Key, dict[str, int]] = {}
        for row in rows:
            key = self._key(row, row.project)
            if not row.project:
                continue
            if key not in self._projects and key not in new:
                new.add(key)
                self._step(row.line, f"create project {self._name_of(key)}", partial(self._make_project, row, key))
            for resource, limit in row.quotas:
                if key not in limits:
                    limits[key] = self._limits(key)
                known = limits[key][resource]
                if limit != known:
                    limits[key][resource] = limit
                    words = f"change quota {resource} of {self._name_of(key)} from {known} to {limit}"
                    self._step(row.line, words, partial(self._set_limit, key, resource, limit))

    def _limits(self, key: Key) -> dict[str, int]:
        known = self._projects.get(key)
        return dict(quota_selectors.limits_of(known.id) if known else quota_selectors.default_limits())

    def _make_project(self, row: Row, key: Key) -> None:
        self._projects[key] = create_project(self._domains[row.domain or DOMAIN], key[1])

    def _set_limit(self, key: Key, resource: str, limit: int) -> None:
        set_limit(self._projects[key].id, resource, limit)

    def _plan_users(self, rows: Sequence[Row]) -> None:
        changed: set[Key] = set()
        for row in rows:
            key = self._key(row, row.user)
            known = self._users.get(key)
            if known is None:
                self._plan_new(row, key)
            elif row.email and row.email != known.email and key not in changed and self._only is None:
                changed.add(key)
                words = f"change e-mail of {self._name_of(key)} from {known.email or 'none'} to {row.email}"
                self._step(row.line, words, partial(update_user, known, email=row.email))
        for user in self.new_users.values():
            if not user.password:
                user.password, user.generated = new_password(), True

    def _plan_new(self, row: Row, key: Key) -> None:
        user = self.new_users.get(key)
        if user is None:
            user = self.new_users[key] = NewUser(row.line, self._domains[row.domain or DOMAIN], row.user)
            self._step(row.line, f"create user {self._name_of(key)}", partial(self._make_user, key))
        user.email, user.password = user.email or row.email, user.password or row.password
        if user.project is None and row.project:
            user.project = self._key(row, row.project)

    def _make_user(self, key: Key) -> None:
        user = self.new_users[key]
        record = user.record or prepare_user(user.domain, user.name, password=None, email=user.email)
        store_user(record, default_project=self._projects[user.project] if user.project else None)
        self._users[key] = record

    def _plan_memberships(self, rows: Sequence[Row]) -> None:
        groups = {group.id for group in self._groups.values()}
        present = lookups.memberships_in(groups)
        done: set[tuple[Key, Key]] = set()
        for row in rows:
            user = self._key(row, row.user)
            for name in row.groups:
                group = self._key(row, name)
                known = (self._groups.get(group), self._users.get(user))
                is_in = known[0] is not None and known[1] is not None and (known[0].id, known[1].id) in present
                if not is_in and (group, user) not in done:
                    done.add((group, user))
                    words = f"add {self._name_of(user)} to group {self._name_of(group)}"
                    self._step(row.line, words, partial(self._join, group, user))

    def _join(self, group: Key, user: Key) -> None:
        add_to_group(self._groups[group], self._users[user])

    def _plan_roles(self, rows: Sequence[Row]) -> None:
        projects = {project.id for project in self._projects.values()}
        present = lookups.roles_given_on(projects)
        for row in rows:
            user, project = self._key(row, row.user), self._key(row, row.project)
            person, place = self._users.get(user), self._projects.get(project)
            for name in row.roles:
                has = person is not None and place is not None
                if has and (place.id, person.id, self._roles[name].id) in present:  # type: ignore[union-attr]
                    continue
                words = f"assign {self._name_of(user)} the role {name} on {self._name_of(project)}"
                self._step(row.line, words, partial(self._assign, name, user, project))

    def _assign(self, name: str, user: Key, project: Key) -> None:
        grant(self._roles[name], user=self._users[user], project=self._projects[project])
