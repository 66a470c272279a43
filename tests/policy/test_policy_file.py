"""The operator's file: what it changes, when it is taken, and that no mistake in it lets anybody in."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError
from pytest_django import Settings

from portal.api.openapi import policy_page
from provisioning.common.context import RequestContext
from provisioning.identity import policies, policy, policy_file

Write = Callable[[str], Path]
LAUNCH, STOP = "os_compute_api:servers:create", "os_compute_api:servers:stop"


def somebody(*roles: str) -> RequestContext:
    return RequestContext(uuid.uuid4(), "somebody", uuid.uuid4(), roles=frozenset(roles))


MEMBER = somebody("member", "reader")


@pytest.fixture
def write(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write the policy file as it is from now on; a process looks at it at every question."""
    path = tmp_path / "policy.yaml"
    settings.POLICY_FILE = path
    monkeypatch.setattr(policy, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(policy, "AT_REST", 0.0)
    numbers = iter(range(1, 100))

    def write(text: str) -> Path:
        path.write_text(text)
        moment = 1_700_000_000 + next(numbers)
        os.utime(path, (moment, moment))
        return path

    return write


def test_without_a_file_the_defaults_are_in_force(write: Write) -> None:
    assert policy.allows(MEMBER, LAUNCH)


def test_a_file_changes_the_rules_it_names_while_the_cloud_runs(write: Write) -> None:
    assert policy.allows(MEMBER, LAUNCH)
    before = policy.version()
    write(f'"{LAUNCH}": "rule:admin_required"')
    assert not policy.allows(MEMBER, LAUNCH)
    assert policy.allows(somebody("admin"), LAUNCH)
    assert policy.allows(MEMBER, STOP)
    assert policy.version() != before
    write("")
    assert policy.allows(MEMBER, LAUNCH)


def test_a_file_that_is_being_written_waits_until_it_is_there(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(f'"{LAUNCH}": "!"')
    assert not policy.allows(MEMBER, LAUNCH)
    monkeypatch.setattr(policy, "AT_REST", 3600.0)
    path.write_text("")
    assert not policy.allows(MEMBER, LAUNCH), "the half of a file is not taken for the whole"
    monkeypatch.setattr(policy, "AT_REST", 0.0)
    assert policy.allows(MEMBER, LAUNCH)


def test_the_file_is_looked_at_now_and_then_only(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "LOOK_EVERY", 3600.0)
    policy.load()
    monkeypatch.setattr(policy, "_mark", lambda _: pytest.fail("looked"))
    assert all(policy.allows(MEMBER, LAUNCH) for _ in range(10))


def test_an_answer_is_for_one_caller_and_one_object(write: Write) -> None:
    write('"identity:get_user": "user_id:%(user_id)s and not role:banned"')
    one, other = somebody("reader"), somebody("reader")
    banned = RequestContext(one.user_id, "somebody", one.project_id, roles=frozenset({"reader", "banned"}))
    for _ in range(2):
        assert policy.allows(one, "identity:get_user", {"user_id": one.user_id})
        assert not policy.allows(one, "identity:get_user", {"user_id": other.user_id})
        assert not policy.allows(other, "identity:get_user", {"user_id": one.user_id})
        assert not policy.allows(banned, "identity:get_user", {"user_id": one.user_id})


def test_answers_that_are_remembered_are_bounded(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MOST_ANSWERS", 10)
    for _ in range(50):
        policy.allows(somebody("member"), LAUNCH)
    assert len(policy._current().answers) <= 10


@pytest.mark.slow
def test_threads_see_the_old_rules_or_the_new_ones(write: Write) -> None:
    write(f'"{LAUNCH}": "role:member"\n"{STOP}": "role:member"')
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(300):
                assert not policy.allows(somebody("reader"), LAUNCH)
                assert policy.allows(somebody("admin", "member", "reader"), STOP)
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(10):
        write(f'"{LAUNCH}": "role:{("member", "admin")[turn % 2]}"\n"{STOP}": "role:member"')
    for thread in threads:
        thread.join()
    assert failed == []


WRONG = {
    "bad YAML": ('"a": "b', "It is not valid YAML in line 1"),
    "an at sign without quotes": (f'"{STOP}": @', "It is not valid YAML in line 1"),
    "a list": ("- a\n- b", "one line for each rule"),
    "a word": ("nothing", "one line for each rule"),
    "two documents": (f'"{STOP}": "@"\n---\n"{STOP}": "!"', "It is not valid YAML"),
    "a number": (f'"{STOP}": 5', f"the check of {STOP} must be text in quotes"),
    "nothing": (f'"{STOP}":', f"the check of {STOP} must be text in quotes"),
    "an exclamation mark without quotes": (f'"{STOP}": !', "must be text in quotes"),
    "a list of lists": (f'"{STOP}": [["role:a"]]', "must be text in quotes"),
    "a name that is no text": ('[1, 2]: "@"', "the check of a rule must be text in quotes"),
    "a rule twice": (f'"{STOP}": "!"\n"{STOP}": "@"', f"Line 2: {STOP} occurs twice"),
    "an unknown rule": (
        '"os_compute_api:servers:stop2": "@"',
        "no rule os_compute_api:servers:stop2, .* did you mean os_compute_api:servers:stop",
    ),
    "a rule of one's own that nobody asks": ('"staff": "role:a"', "There is no rule staff"),
    "an empty check": (f'"{STOP}": ""', "It is empty"),
    "a word that is not a check": (f'"{STOP}": "role:member or admin"', "'admin' is not a check"),
    "two checks without a word between": (f'"{STOP}": "role:a role:b"', "cannot be understood"),
    "a parenthesis too many": (f'"{STOP}": "(role:a or role:b"', "cannot be understood"),
    "an operator alone": (f'"{STOP}": "or role:a"', "cannot be understood"),
    "an unknown attribute": (f'"{STOP}": "rol:member"', "'rol' is not an attribute of the caller"),
    "a literal that is none": (f'"{STOP}": "1a:member"', "'1a' is not an attribute"),
    "an unknown target": (f'"{STOP}": "project_id:%(tenant)s"', r"%\(tenant\)s is not available for this rule"),
    "an owner where none is known": (f'"{STOP}": "user_id:%(user_id)s"', r"%\(user_id\)s is not available"),
    "a broken name": (f'"{STOP}": "user_id:%(user_id"', "a % outside of"),
    "a number's format": (f'"{STOP}": "project_id:%(project_id)d"', "a % outside of"),
    "another server": (f'"{STOP}": "http://example.org/check"', "would query another server"),
    "a reference to nothing": (f'"{STOP}": "not rule:nothing"', "the rule nothing, which does not exist"),
    "a circle": ('"a": "rule:b"\n"b": "not rule:a"\n' + f'"{STOP}": "rule:a"', "in a cycle: .*a → b → a"),
    "a circle of one": (f'"{STOP}": "not rule:{STOP}"', "in a cycle"),
    "too many brackets": ("[" * 1000, "It is (not valid YAML|nested)"),
    "a number that is none": (f'"{STOP}": "01:member"', "'01' is not an attribute"),
    "too many words": (f'"{STOP}": "{"not " * 5000}role:a"', "nested too deeply"),
    "a long chain": ("".join(f'"a{n}": "rule:a{n + 1}"\n' for n in range(1500)), "nested too deeply|does not exist"),
    "a NUL": ("a\0b: c", "It is not valid YAML"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_and_lets_nobody_in(
    write: Write, text: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(f'"{LAUNCH}": "!"')
    assert not policy.allows(MEMBER, LAUNCH)
    write(text)
    for _ in range(3):
        assert not policy.allows(MEMBER, LAUNCH), "the rules before stay in force"
        assert policy.allows(MEMBER, STOP)
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.name for record in errors] == ["provisioning.identity.policy"], "said once"
    with pytest.raises(policy_file.PolicyFileError, match=reason):
        policy_file.read(path)
    with pytest.raises(policy_file.PolicyFileError, match="cannot be used"):
        policy.load()


def test_a_process_that_finds_a_wrong_file_refuses_everything_until_it_is_repaired(write: Write) -> None:
    write("- nothing")
    assert not policy.allows(somebody("admin", "member", "reader"), "os_compute_api:servers:detail")
    write("")
    assert policy.allows(MEMBER, LAUNCH)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"# " + b"x" * policy_file.LARGEST])
def test_no_text_at_all(write: Write, content: bytes) -> None:
    path = write("")
    path.write_bytes(content)
    with pytest.raises(policy_file.PolicyFileError, match=r"UTF-8|larger"):
        policy_file.read(path)


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(policy_file.PolicyFileError, match="cannot be read"):
        policy_file.read(tmp_path)


def test_a_file_that_disappears_leaves_its_rules(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    path = write(f'"{LAUNCH}": "!"')
    assert not policy.allows(MEMBER, LAUNCH)
    path.unlink()
    assert not policy.allows(MEMBER, LAUNCH)
    assert not policy.allows(MEMBER, LAUNCH)
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    write("{}")
    assert policy.allows(MEMBER, LAUNCH)


RIGHT = {
    "nobody": ('"!"', False),
    "everybody": ('"@"', True),
    "parentheses": ('"(role:x or (role:member and not role:y))"', True),
    "capitals": ('"ROLE:x OR role:member"'.replace("ROLE", "role"), True),
    "the own project": ('"project_id:%(project_id)s"', True),
    "a constant": ("\"'a':b or None:%(project_id)s\"", False),
    "a rule of one's own": ('"rule:staff"\n"staff": "role:member and user_domain_id:default"', True),
    "the kind of token": ('"token_scope:project and not system_scope:all"', True),
    "a list of roles": ('"roles:member"', True),
    "single quotes": ("'role:member'", True),
}


@pytest.mark.parametrize(("check", "expected"), RIGHT.values(), ids=RIGHT)
def test_the_whole_language_is_taken(write: Write, check: str, expected: bool) -> None:
    write(f'"{STOP}": {check}')
    policy.load()
    assert policy.allows(MEMBER, STOP) is expected


@pytest.mark.slow
def test_every_problem_is_listed_by_the_command_and_by_django_s_checks(write: Write) -> None:
    path = write('"nothing:here": "@"\n"os_compute_api:servers:stop": "admin"\n"os_compute_api:servers:start": 1')
    with pytest.raises(CommandError) as refused:
        call_command("check_policy", str(path))
    for text in ("nothing:here", "'admin' is not a check", "os_compute_api:servers:start must be text"):
        assert text in str(refused.value)
    with pytest.raises(SystemCheckError, match=r"(?s)novella\.policy.*'admin' is not a check"):
        call_command("check")


def test_the_command_shows_what_differs(write: Write) -> None:
    path = write(f'"{LAUNCH}": "rule:staff"\n"{STOP}": "role:member"\n"staff": "role:staff"')
    output = StringIO()
    call_command("check_policy", str(path), stdout=output)
    assert f"{LAUNCH}\n  default: role:member\n  now:     rule:staff\n" in output.getvalue()
    assert "(a rule of the file's own)" in output.getvalue()
    assert STOP not in output.getvalue()
    assert "2 of" in output.getvalue()
    with pytest.raises(CommandError, match="no file"):
        call_command("check_policy", str(path.with_name("other.yaml")))


def test_a_rule_of_openstack_for_what_this_cloud_does_not_do_is_reported(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(
        f'"{LAUNCH}": "rule:project_member_or_admin"\n'
        '"os_compute_api:os-server-shares:create": "rule:project_member_or_admin"\n'
        '"create_network:segments": "rule:network_owner"\n"network_owner": "tenant_id:%(network:tenant_id)s"'
    )
    policy.load()
    assert policy.allows(MEMBER, LAUNCH)
    assert not policy.allows(somebody("reader"), LAUNCH)
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    output = StringIO()
    call_command("check_policy", str(path), stdout=output)
    for name in ("os_compute_api:os-server-shares:create", "create_network:segments", "network_owner"):
        assert f"{name}\n  has no effect" in output.getvalue()
    assert "1 of" in output.getvalue()


def test_a_rule_of_openstack_that_another_one_names_must_be_right(write: Write) -> None:
    path = write(f'"{STOP}": "rule:network_owner"\n"network_owner": "tenant_id:%(network:tenant_id)s"')
    with pytest.raises(policy_file.PolicyFileError, match="network_owner: 'tenant_id' is not an attribute"):
        policy_file.read(path)


def test_the_list_of_rules_elsewhere_names_none_of_ours() -> None:
    assert policy_file._elsewhere() & policy.RULES.keys() == set()


@pytest.mark.slow
def test_the_sample_is_a_file_that_changes_what_the_file_does(write: Write) -> None:
    path = write(f'"{LAUNCH}": "rule:staff"\n"staff": "role:staff"')
    output = StringIO()
    call_command("show_policy", "--file", str(path), stdout=output)
    shown = output.getvalue()
    assert all(f'#"{name}": ' in shown for name in policy.RULES)
    result = policy_file.read(write(shown))
    assert result == {LAUNCH: "rule:staff", "staff": "role:staff"}
    write(shown.replace('\n#"', '\n"').replace(f'"{LAUNCH}": "role:member"\n', ""))
    assert policy_file.differing(policy_file.read(path)) == result


@pytest.mark.slow
@pytest.mark.deep
def test_a_broken_file_stops_the_start_of_the_web_process(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text('"os_compute_api:servers:stop": "admin"')
    environment = os.environ | {"NOVELLA_POLICY_FILE": str(path), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    done = subprocess.run(
        [sys.executable, "-c", "import portal.asgi"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "os_compute_api:servers:stop: 'admin' is not a check" in done.stderr.splitlines()[-1]


WITHOUT_THE_WEB = """
import sys, django
django.setup()
from provisioning.identity import policy
policy.load()
assert "portal.urls" not in sys.modules and "portal.api.compute.server_actions" not in sys.modules
print(*(f"{name} {policy._current().enforcer.rules[name]}" for name in policy.RULES), sep="\\n")
"""


@pytest.mark.slow
@pytest.mark.deep
def test_a_worker_knows_every_rule_and_takes_the_file_s_for_actions(tmp_path: Path) -> None:
    """Server actions bring their rules: a process that serves no page has them all, and refuses none of the file's."""
    path = tmp_path / "policy.yaml"
    path.write_text(f'"{STOP}": "role:admin"')
    environment = os.environ | {"NOVELLA_POLICY_FILE": str(path), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    words = [sys.executable, "-c", WITHOUT_THE_WEB]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    result = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert result.keys() == policy.RULES.keys()
    assert result[STOP] == "role:admin"


def test_a_rule_is_added_once() -> None:
    with pytest.raises(ValueError, match=STOP):
        policies.add("Compute", policy.Rule(STOP, "@", "Stop a server."))


def test_the_page_of_the_documentation_is_fresh() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "policy.md"
    assert page.read_text() == policy_page.markdown(), "run: manage.py show_policy --markdown > docs/policy.md"


def test_what_is_nested_beyond_all_measure_lets_nobody_in(write: Write) -> None:
    chain = "".join(f'"a{n}": "not not not not rule:a{n + 1}"\n' for n in range(120))
    write(f'{chain}"a120": "not role:member"\n"{STOP}": "not rule:a0"')
    policy.load()
    assert policy.allows(MEMBER, LAUNCH)
    assert not policy.allows(MEMBER, STOP)


@pytest.mark.slow
@pytest.mark.deep
def test_workers_do_not_load_the_library() -> None:
    modules = "hosts.reports", "compute.launch.schedule", "identity.policy", "identity.apps"
    lines = "; ".join(f"import_module('provisioning.{module}')" for module in modules)
    program = f"""
import os, sys, django
from importlib import import_module
os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
django.setup()
{lines}
from provisioning.common.context import system_context
from provisioning.identity import policy
assert policy.allows(system_context(), "os_compute_api:servers:detail:get_all_tenants")
assert not [name for name in sys.modules if name.startswith("oslo_policy")]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_answer_is_shared_by_those_alone_whom_the_rule_cannot_tell_apart(write: Write) -> None:
    everything = policy_file.effective(
        {STOP: "rule:own", "own": "rule:mine and role:member", "mine": "project_domain_id:default"}
    )
    shared = policy_file.by_role(everything)
    assert {LAUNCH, "admin_required", "novella:admin"} <= shared
    assert not {STOP, "own", "mine", "domain_admin", "identity:get_user"} & shared
    write('"os_compute_api:servers:create": "rule:own"\n"own": "user_domain_id:default"')
    other = RequestContext(MEMBER.user_id, "x", MEMBER.project_id, user_domain_id="other", roles=MEMBER.roles)
    for _ in range(2):
        assert policy.allows(MEMBER, LAUNCH)
        assert not policy.allows(other, LAUNCH)
