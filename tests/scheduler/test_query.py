"""The hint ``query``: what holds for which host, what is refused with a sentence, and that no input makes a crash."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.common.errors import InvalidInputError
from provisioning.scheduler import Facts, check_query
from provisioning.scheduler.query import DEEPEST, LONGEST, MOST_PARTS, JsonFilter
from tests.scheduler.test_ranking import SPEC, host, reasons
from tests.support.ranking import rank

FACTS = Facts(cpu_info={host().raw_id: {"arch": "x86_64", "features": "aes,avx"}})
KELVIN = host(hypervisor_type="KVM", memory_mb_allocated=4096, instances=2)._replace(facts=FACTS)
"""4096 MiB free of 8192, 100 GiB of disk, 8 processors, 2 servers."""


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ([">=", "$free_ram_mb", 4096], True),
        ([">", "$free_ram_mb", 4096], False),
        (["<=", "$free_ram_mb", 4096.0], True),
        (["<", "$free_ram_mb", 4096.5], True),
        (["=", "$vcpus_total", 8], True),
        (["=", "$vcpus_total", 8, 8], True),
        (["=", "$vcpus_total", 8, 9], False),
        (["<", 1, "$num_instances", "$vcpus_total"], True),
        (["<", 5, "$num_instances", "$vcpus_total"], False),
        (["=", "$hypervisor_type", "KVM"], True),
        (["in", "$hypervisor_type", "QEMU", "KVM"], True),
        (["in", "$hypervisor_type", "QEMU", "xen"], False),
        (["in", 8, "$vcpus_total", 9], True),
        (["in", "aes", "$cpu_info.features"], True),
        (["in", "ae", "$cpu_info.features"], False),
        (["in", "$cpu_info.arch", "x86_64", "aarch64"], True),
        (["=", "$cpu_info.model", "EPYC"], False),
        (["not", ["=", "$cpu_info.model", "EPYC"]], True),
        (["and", [">=", "$free_ram_mb", 1024], [">=", "$free_disk_mb", 102400]], True),
        (["and", [">=", "$free_ram_mb", 1024], [">=", "$free_disk_mb", 102401]], False),
        (["or", [">=", "$free_ram_mb", 9999], [">=", "$free_disk_gb", 100]], True),
        (["or", [">=", "$free_ram_mb", 9999]], False),
        (["not", [">=", "$free_ram_mb", 9999]], True),
        (["not", [">=", "$free_ram_mb", 1], [">=", "$free_ram_mb", 9999]], True),
        (["not", ["not", ["and", ["=", 1, 1], ["or", ["=", 1, 2], ["=", "a", "a"]]]]], True),
    ],
)
def test_a_query_holds_as_in_nova(query: list[Any], holds: bool) -> None:
    for given_as in (query, json.dumps(query)):
        spec = replace(SPEC, query=check_query(given_as))
        assert bool(rank([KELVIN], spec).ranked) is holds
        assert JsonFilter().passes(KELVIN, spec) is holds


@pytest.mark.parametrize("command", ["=", "<", ">", "<=", ">=", "in"])
def test_what_a_host_does_not_say_is_like_nothing(command: str) -> None:
    spec = replace(SPEC, query=[command, "$hypervisor_type", "KVM", "KVM"])
    assert not rank([host()], spec).ranked


def deep(levels: int) -> list[Any]:
    query: list[Any] = ["=", 1, 1]
    for _ in range(levels - 1):
        query = ["not", query]
    return query


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "not JSON"),
        ("[>=,$free_ram_mb,1024]", "not JSON"),
        ("[" * 4000, "not JSON"),
        ("[" + "9" * 4090 + "]", "is not one of"),
        ("x" * (LONGEST + 1), "characters"),
        ("{}", "must be a condition"),
        ("[]", "must be a condition"),
        ([], "must be a condition"),
        ({"=": 1}, "must be a condition"),
        (None, "must be a condition"),
        (5, "must be a condition"),
        (["=~", "$vcpus", 8], "'=~' is not one of"),
        ([["="], 1], "is not one of"),
        ([None], "is not one of"),
        (["="], "needs at least two values"),
        (["=", "$vcpus"], "needs at least two values"),
        (["=", "$vcpus", "8"], "can only compare numbers with numbers"),
        (["=", "$vcpus", ["=", 1, 1]], "can only compare numbers with numbers"),
        (["=", ["=", 1, 1], ["=", 1, 1]], "can only compare numbers with numbers"),
        (["=", "$cpu_info.features", "$cpu_info.features"], "can only compare numbers with numbers"),
        (["in", "$cpu_info.features", "aes"], "can only compare numbers with numbers"),
        (["in", 5, "$cpu_info.features"], "can only compare numbers with numbers"),
        (["=", "$host", "kelvin"], "'$host' is not a known attribute"),
        (["=", "$hypervisor_hostname", "kelvin"], "is not a known attribute"),
        (["=", "$", 1], "is not a known attribute"),
        (["=", "$__class__", 1], "$free_ram_mb"),
        (["=", True, True], "bool"),
        (["=", None, 1], "NoneType"),
        (["=", {"a": {}}, 1], "dict"),
        (["and"], "requires conditions"),
        (["and", 1], "requires conditions"),
        (["not", "$vcpus"], "requires conditions"),
        (["and", []], "is empty"),
        (["=", "a\x00", "b"], "printable"),
        (["=", "\ud800", "b"], "printable"),
        (["=", "a" * 256, "b"], "printable"),
        (["=", 1 << 64, 1], "too large"),
        (["=", 10**400, 1], "too large"),
        ('["=", NaN, 1]', "too large"),
        ('["=", -Infinity, 1]', "too large"),
        (deep(DEEPEST + 1), "nested more than"),
        (["or", *[["=", 1, 1]] * MOST_PARTS], "parts"),
    ],
)
def test_a_wrong_query_is_refused_with_a_sentence(query: object, words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_query(query)
    assert refused.value.field == "query"
    assert words in refused.value.message
    assert len(refused.value.message) < 1000


def test_queries_may_be_as_deep_and_long_as_that() -> None:
    assert check_query(deep(DEEPEST)) == deep(DEEPEST)
    assert check_query(["=", *[1] * (MOST_PARTS - 1)])


def test_a_query_that_was_never_checked_lets_no_host_pass() -> None:
    assert reasons([KELVIN], replace(SPEC, query="nonsense")) == ("JsonFilter", "1 host is excluded by the hint query")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["=", "<", "in", "and", "or", "not", "$vcpus", "$cpu_info.features", "$hypervisor_type"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=30,
)


@pytest.mark.slow
@given(json_values)
def test_any_json_is_a_condition_or_refused(query: object) -> None:
    try:
        kept = check_query(query)
    except InvalidInputError:
        return
    assert rank([KELVIN, host("silent")], replace(SPEC, query=kept)).filters
    assert check_query(json.dumps(kept)) == kept
