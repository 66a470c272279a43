"""How a place was found, or why there was none, on an instance's page: for its owner without hosts, for operators with
them.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from compute_agent.contract.steps import FETCH_IMAGE
from portal.dashboard.instances.detail.contents import ADVICE
from provisioning.compute.models import Instance, SchedulingDecision
from provisioning.compute.selectors.explained import ALL_TAKEN, GAVE_UP, LABELS, Explained
from provisioning.scheduler.options import FILTERS
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.standing import standing

pytestmark = pytest.mark.slow


def page_of(client: Client, instance: Instance) -> Any:
    answer = client.get(f"/instances/{instance.id}/activity/")
    assert answer.status_code == 200
    return answer


def decisions_on(client: Client, instance: Instance) -> list[Explained]:
    result: list[Explained] = page_of(client, instance).context["decisions"]
    return result


@pytest.fixture
@standing
def web(cloud: Cloud, alice: Person) -> Instance:
    instance = cloud.launch(alice.context, name="web")
    cloud.run()
    return instance


def decide(instance: Instance, *filters: dict[str, Any], **columns: Any) -> SchedulingDecision:
    """Write a decision of the instance's by hand."""
    SchedulingDecision.objects.filter(instance=instance).delete()
    values: dict[str, Any] = {"attempt": 1, "seconds": 0.004, "filters": list(filters), **columns}
    return SchedulingDecision.objects.create(instance=instance, **values)


def took(name: str, before: int, after: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "before": before, "after": after, "reason": "", **more}


def test_a_launch_that_went_well_says_so_in_one_line(at_alice: Client, web: Instance) -> None:
    (decision,) = decisions_on(at_alice, web)
    assert decision.sentence == "1 host, all suitable."
    assert (decision.tone, decision.took) == ("ok", ())
    page = page_of(at_alice, web).content.decode()
    assert "removed no host" in page
    assert "How its host was chosen" in page
    assert "open" not in page.split('data-testid="decision-1"')[1].split(">")[0]


def test_each_filter_that_took_hosts_away_has_its_line_and_no_other(at_alice: Client, web: Instance) -> None:
    decide(
        web,
        took("ComputeFilter", 12, 12),
        took("RamFilter", 12, 9, asked=1, most=65, unit="GiB", words="have enough memory", reason="3 hosts lack it"),
        took("AvailabilityZoneFilter", 9, 9),
        took("DiskFilter", 9, 0, asked=20, most=14, unit="GiB", words="have enough disk", reason="x"),
    )
    (decision,) = decisions_on(at_alice, web)
    assert decision.sentence == (
        "12 hosts → 9 have enough memory → 0 have enough disk: 20 GiB requested, at most 14 GiB free."
    )
    page = page_of(at_alice, web).content.decode()
    drawn = page.split('class="sieve"')[1].split("</ol>")[0]
    shown = ("hosts in all", "have enough memory", "have enough disk", "enabled and up")
    assert [drawn.count(words) for words in shown] == [
        *(1, 1, 1),
        0,
    ]
    assert "3 hosts lack it" in drawn
    assert "2 checks removed no host: enabled and up, zone." in page
    assert "Why no host was found" in page
    assert "open" in page.split('data-testid="decision-1"')[1].split(">")[0]


@pytest.mark.parametrize(
    ("filters", "found", "sentence"),
    [
        ([], "", "There are no hosts in this cloud yet."),
        ([took("RamFilter", 0, 0)], "", "There are no hosts in this cloud yet."),
        ([took("RamFilter", 2, 2)], "h", "2 hosts, all suitable."),
        ([took("RamFilter", 2, 1, words="has enough memory")], "h", "2 hosts → 1 has enough memory."),
        ([took("zone", 3, 0, words="are left", reason="all are elsewhere")], "",
         "3 hosts → 0 are left: all are elsewhere."),
        ([took("RamFilter", 1, 0, words="have enough memory", asked=3072, most=512, unit="MiB")], "",
         "1 host → 0 have enough memory: 3 GiB requested, at most 512 MiB free."),
    ],
)  # fmt: skip
def test_the_sentence(
    at_alice: Client, web: Instance, filters: list[dict[str, Any]], found: str, sentence: str
) -> None:
    decide(web, *filters, host_name=found)
    assert decisions_on(at_alice, web)[0].sentence == sentence


def test_hosts_that_others_took(at_alice: Client, web: Instance) -> None:
    decide(web, took("RamFilter", 2, 2), weights=[{"host": "h", "weight": 1.0}])
    assert decisions_on(at_alice, web)[0].sentence == f"2 hosts, all suitable. {ALL_TAKEN}"
    assert "Other servers claimed them" in page_of(at_alice, web).content.decode()


def test_attempts_are_newest_first_with_the_reasons_of_those_that_failed(
    signed_in: SignedIn, at_alice: Client, alice: Person, operator: Person, cloud: Cloud
) -> None:
    cloud.add_host("host-2")
    instance = cloud.launch(alice.context)
    drain()
    agent = cloud.agent_of(instance)
    (command,) = agent.take()
    first = Cloud.fresh(instance).host
    assert first is not None
    agent.fail(command, f"{first.name}: no room for the image on {first.name}.", retryable=True, after=FETCH_IMAGE)
    cloud.run()
    second, failed = decisions_on(at_alice, instance)
    assert (second.attempt, second.failure, second.tone) == (2, "", "ok")
    assert (failed.attempt, failed.tone) == (1, "warn")
    assert failed.failure == "the host: no room for the image on the host."
    assert second.stopper is None
    assert [check.result.name for check in second.took] == ["RetryFilter"]
    assert "It failed there:" in page_of(at_alice, instance).content.decode()
    assert first.name in decisions_on(signed_in(operator), instance)[1].failure


def test_an_attempt_that_went_silent_says_so(at_alice: Client, web: Instance) -> None:
    action = web.actions.get(action="create")
    type(action).objects.filter(id=action.id).update(finished_at=None)
    action.events.create(name="schedule", attempt=2, started_at=web.created_at, result="Success")
    action.events.create(name="claim", attempt=2, started_at=web.created_at, result="Success")
    assert decisions_on(at_alice, web)[0].failure == GAVE_UP


def test_a_failed_step_of_another_action_is_no_failure_of_the_launch(at_alice: Client, web: Instance) -> None:
    stopped = web.actions.create(action="stop", request_id="req-x", started_at=web.created_at)
    stopped.events.create(name="stop", attempt=1, started_at=web.created_at, result="Error", message="no")
    assert decisions_on(at_alice, web)[0].failure == ""


def test_names_weights_and_losses_are_for_operators(
    signed_in: SignedIn, at_alice: Client, operator: Person, web: Instance
) -> None:
    decide(
        web,
        took("ComputeFilter", 4, 4),
        took("RamFilter", 4, 1, asked=1024, most=4096, unit="MiB"),
        host_name="secret-1",
        weights=[{"host": "secret-1", "weight": 1.5, "parts": {"RAMWeigher": 1.0, "ImageCachedWeigher": 0.5}}],
        losses={"RamFilter": ["secret-2", "secret-3"]},
    )
    assert "secret" not in page_of(at_alice, web).content.decode()
    page = re.sub("</?bdi>", "", page_of(signed_in(operator), web).content.decode())
    assert "chosen: secret-1" in page
    assert "without secret-2, secret-3 and 1 more" in page
    assert "RAMWeigher 1.00 · ImageCachedWeigher 0.50" in page


def test_old_decisions_without_shares_are_shown(signed_in: SignedIn, operator: Person, web: Instance) -> None:
    decide(web, took("RamFilter", 1, 1), host_name="h", weights=[{"host": "h", "weight": 1.0}])
    assert "The best hosts and their weights" in page_of(signed_in(operator), web).content.decode()


def test_hosts_that_weigh_the_same_are_reported_as_drawn(signed_in: SignedIn, web: Instance, operator: Person) -> None:
    weights = [{"host": "ohm", "weight": 1.0}, {"host": "tesla", "weight": 1.0}]
    decide(web, took("RamFilter", 2, 2), host_name="ohm", weights=weights)
    page = page_of(signed_in(operator), web).content.decode()
    assert "Equal weights: one was chosen at random" in page
    assert "The best hosts and their weights" not in page


def test_what_hosts_and_filters_are_called_is_never_html(signed_in: SignedIn, operator: Person, web: Instance) -> None:
    decide(web, took("<i>x</i>", 2, 1, reason="<b>r</b>"), host_name="<u>h</u>", losses={"<i>x</i>": ["<s>l</s>"]})
    page = page_of(signed_in(operator), web).content.decode()
    assert not any(tag in page for tag in ("<i>x", "<b>r", "<u>h", "<s>l"))


@pytest.mark.parametrize("name", sorted({each.name for each in FILTERS}))
def test_there_is_advice_for_every_filter(at_alice: Client, web: Instance, name: str) -> None:
    Instance.objects.filter(id=web.id).update(vm_state="error", task_state=None)
    web.faults.create(message="No valid host was found. ")
    decide(web, took(name, 3, 0))
    answer = page_of(at_alice, web)
    assert name in LABELS
    assert answer.context["advice"].startswith(ADVICE[name])


def test_decisions_hide_with_their_rule(
    at_alice: Client, web: Instance, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Any
) -> None:
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    settings.POLICY_FILE.write_text('"novella:servers:scheduling": "!"\n')
    monkeypatch.setattr("provisioning.identity.policy.LOOK_EVERY", 0)
    assert decisions_on(at_alice, web) == []
