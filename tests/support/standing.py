"""Fixtures whose rows stand while the tests of a module run: they are built once, not for each test.

``tests/conftest.py`` loads this module as a plugin.  A fixture that builds rows and depends on ``db`` and on other
marked fixtures alone is marked so::

    @pytest.fixture
    @standing
    def cloud(people: People) -> Cloud: ...

The first test of a module that needs it builds it inside a transaction below the test's own; that test and later ones
run in a savepoint and get a copy of the objects, so no test sees another's changes.  The tests of a module are ordered
by the fixtures they need.  A test that commits, or runs on PostgreSQL, builds its own as before.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import pickle
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from django.core.cache import caches
from django.db import connection, transaction
from django.db.models import DateTimeField
from django.utils import timezone
from pytest_django.plugin import blocking_manager_key

from provisioning.common.database.prepared import PreparedUpdate
from provisioning.hosts.models import Host

F = TypeVar("F", bound=Callable[..., Any])
OUTSIDE = {"transactional_db", "live_server", "django_db_reset_sequences", "real_hashes"}
"""Fixtures of tests that commit, or whose rows are others."""


@dataclass
class _Layer:
    """A fixture that stands, its transaction, and the objects of all fixtures so far as they were then."""

    make: Callable[..., Any]
    block: Any
    objects: bytes


@dataclass
class _Stage:
    """The fixtures that stand in this process."""

    layers: list[_Layer] = field(default_factory=list)
    copies: dict[Callable[..., Any], Any] = field(default_factory=dict)
    """The objects of the running test."""
    broken: set[Callable[..., Any]] = field(default_factory=set)
    """Those that cannot be built outside a test, or not be copied."""
    item: pytest.Item | None = None
    """The test for which the layers are."""

    def prepare(self, item: pytest.Item) -> None:
        """Let exactly the fixtures stand that the test needs, and copy their objects."""
        if self.item is item:
            return
        requested = [] if self.broken & {*_needs(item)} else _needs(item)
        common = self.common(requested)
        self.unwind(common)
        for make in requested[common:]:
            try:
                self._build(make, item)
            except Exception:  # noqa: BLE001 - the test meets it when it builds its own
                self.broken.add(make)
                self.unwind()
                break
        self.item, self.copies = item, self._objects()

    def common(self, requested: list[Callable[..., Any]]) -> int:
        """Return how many of them stand already, from the first on."""
        pairs = zip(requested, self.layers, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[1].make is pair[0], pairs))

    def _build(self, make: Callable[..., Any], item: pytest.Item) -> None:
        objects = self._objects()
        block = transaction.atomic()
        block._from_testcase = True  # type: ignore[attr-defined] # as Django's tests have it: durable ones may follow
        block.__enter__()
        self.layers.append(_Layer(make, block, b""))
        _let_hosts_be_up()
        try:
            objects[make] = make(**_arguments(make, objects, item))
            kept = pickle.dumps([(_name(each), made) for each, made in objects.items()])
        except BaseException:
            self.unwind(len(self.layers) - 1)
            raise
        self.layers[-1].objects = kept

    def _objects(self) -> dict[Callable[..., Any], Any]:
        if not self.layers:
            return {}
        known = {_name(layer.make): layer.make for layer in self.layers}
        return {known[name]: made for name, made in pickle.loads(self.layers[-1].objects)}  # noqa: S301 - our own

    def unwind(self, depth: int = 0) -> None:
        """Let only so many stand."""
        self.item, self.copies = None, {}
        while len(self.layers) > depth:
            connection.set_rollback(True)
            self.layers.pop().block.__exit__(None, None, None)
        if not connection.in_atomic_block:
            connection.close()  # as at the end of any test: the next one may have no database


_stage = _Stage()


def _let_hosts_be_up() -> None:
    """Let no host be down because it stands for long."""
    _SEEN(now=timezone.now())


_SEEN = PreparedUpdate(
    lambda now: (Host.objects.filter(last_seen_at__isnull=False), {"last_seen_at": now}), now=DateTimeField()
)


def _name(make: Callable[..., Any]) -> str:
    return f"{make.__module__}.{make.__qualname__}"


def standing(make: F) -> F:
    """Mark the function of a fixture that builds rows."""

    @functools.wraps(make)
    def fixture(**arguments: Any) -> Any:
        return _stage.copies[make] if make in _stage.copies else make(**arguments)

    fixture.stands = make  # type: ignore[attr-defined]
    return fixture  # type: ignore[return-value]


def derived(make: F) -> F:
    """Mark the function of a fixture that builds no rows, of standing ones: others that stand may depend on it."""
    make.derived = True  # type: ignore[attr-defined]
    return make


def _definition(item: pytest.Item, name: str) -> pytest.FixtureDef[Any] | None:
    row = item._fixtureinfo.name2fixturedefs.get(name)  # type: ignore[attr-defined]
    return row[-1] if row else None


def _arguments(make: Callable[..., Any], objects: dict[Callable[..., Any], Any], item: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a fixture's function; ``db`` is None."""

    def value(name: str) -> Any:
        definition = _definition(item, name)
        if definition is None or name == "db":
            return None
        if hasattr(definition.func, "derived"):
            return definition.func(**_arguments(definition.func, objects, item))
        return objects[vars(definition.func)["stands"]]

    return {name: value(name) for name in inspect.signature(make).parameters}


NEEDS = pytest.StashKey[list[Callable[..., Any]]]()


def _needs(item: pytest.Item) -> list[Callable[..., Any]]:
    """Return the fixtures of a test that can stand, each behind those it depends on."""
    if NEEDS not in item.stash:
        item.stash[NEEDS] = _found(item)
    return item.stash[NEEDS]


def _found(item: pytest.Item) -> list[Callable[..., Any]]:
    if _commits(item) or not hasattr(item, "_fixtureinfo"):
        return []
    values: list[Callable[..., Any]] = []

    def add(name: str) -> bool:
        """Add a fixture with what it depends on; returns whether it stands."""
        definition = _definition(item, name)
        if definition is None or name == "db":
            return name == "db"
        make = getattr(definition.func, "stands", None)
        if make in values:
            return True
        stands = (make is not None or hasattr(definition.func, "derived")) and all(map(add, definition.argnames))
        if stands and make is not None:
            values.append(make)
        return stands

    for name in sorted(item._fixtureinfo.name2fixturedefs):
        add(name)
    return values


def _commits(item: pytest.Item) -> bool:
    """Whether a test is not undone by the end of a transaction on SQLite, or needs rows of its own."""
    callspec = getattr(item, "callspec", None)
    marker = item.get_closest_marker("django_db")
    if callspec is not None and callspec.params.get("database") == "postgresql":
        return True
    return bool(OUTSIDE & {*getattr(item, "fixturenames", ())} or (marker and (marker.args or marker.kwargs)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put those tests of a module beside each other that need the same, behind them those that commit."""
    places: dict[tuple[Any, ...], int] = {}

    def key(item: pytest.Item) -> list[int]:
        path: tuple[Any, ...] = (item.path,)
        ranks = [places.setdefault(path, len(places)), int(_commits(item))]
        for make in _needs(item):
            path = (*path, make)
            ranks.append(places.setdefault(path, len(places)))
        return ranks

    items.sort(key=key)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Prepare before the first fixture that belongs to the test alone, and so before its transaction."""
    item = request._pyfuncitem
    if fixturedef.scope == "function" and _stage.item is not item and _needs(item):
        request.getfixturevalue("django_db_setup")
        with _unblocked(item):
            _stage.prepare(item)
    result = yield
    if fixturedef.argname == "_django_db_helper" and _stage.copies:
        _let_hosts_be_up()
        caches["rates"].clear()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Let only stand what the next test of the module needs as well."""
    result = yield
    if _stage.layers:
        with _unblocked(item):
            same = nextitem is not None and nextitem.path == item.path
            _stage.unwind(_stage.common(_needs(nextitem)) if nextitem is not None and same else 0)
    return result


def _unblocked(item: pytest.Item) -> Any:
    return item.config.stash[blocking_manager_key].unblock()
