"""Registry of server actions, and of all tables that derive from them. ``every`` lists the actions."""

from typing import Any

from compute_agent.contract.commands import CommandBody, DestroyRequest
from provisioning.compute import states
from provisioning.compute.actions.base import HostAction, ServerAction
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.actions.ways import DrainWay
from provisioning.compute.models import Instance
from provisioning.compute.notifications import table
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState
from provisioning.identity import policies
from provisioning.identity.policies.base import Rule

actions: dict[str, ServerAction[Any]] = {}
"""Key → server action."""
host_actions: dict[str, HostAction[Any, Any]] = {}
"""Key → action that a host carries out."""
of_task: dict[TaskState, HostAction[Any, Any]] = {}
"""task_state → the action with this task."""
words_of_tasks: dict[str, str] = {}
"""task_state → label of the task on pages."""
_taskless: dict[type[CommandBody], TasklessAction[Any, Any]] = {}


def connect(*classes: type[ServerAction[Any]]) -> None:
    """Connect all server actions, and fill the tables that derive from them.

    Raises ValueError for two classes with the same key.
    """
    for cls in classes:
        if cls.key in actions:
            raise ValueError(f"There are two server actions {cls.key!r}.")
        actions[cls.key] = cls()
        _derive(actions[cls.key])


def _derive(one: ServerAction[Any]) -> None:
    states.add_transitions(one.transitions())
    if isinstance(one, HostAction):
        host_actions[one.key] = one
        if isinstance(one, TasklessAction):
            _taskless[one.body] = one
        for task, word in zip(one.tasks(), (one.doing, *(stage.doing for stage in one.stages)), strict=False):
            of_task[task], words_of_tasks[task] = one, word
            state.SETTING_OF[task] = one.timeout
            if one.heavy_io:
                states.DISK_TASKS.add(task)
            for vm_state, status in one.status.items():
                states.STATUSES[vm_state][1][task] = status
    if one.rule_description:
        policies.add("Compute", Rule(one.rule, one.rule_check, one.rule_description))
    _add_notifications(one)


def _add_notifications(action: ServerAction[Any]) -> None:
    name = action.notification
    if not name:
        return
    if not isinstance(action, HostAction):
        table.WITHOUT_TRANSITION.append(f"instance.{name}")
    elif isinstance(action, TasklessAction):
        table.WITHOUT_TRANSITION.extend(f"instance.{name}.{phase}" for phase in ("start", "end", "error"))
        table.add_action(name, action.record, {}, ())
    else:
        ordinary = {action.key: (f"{name}.start",), **dict.fromkeys(action.ends, (f"{name}.end",))}
        table.add_action(name, action.record, action.sends or ordinary, action.notified_tasks(), error=action.error)


def action_of(instance: Instance) -> HostAction[Any, Any] | None:
    """Return the action of the server's task; None without a task or while the server is built."""
    return of_task.get(TaskState(instance.task_state)) if instance.task_state else None


def awaiting(instance: Instance, body: CommandBody) -> HostAction[Any, Any] | None:
    """Return the action that waits for the end of this command; None when the server's task does not."""
    taskless = _taskless.get(type(body))
    if taskless is not None:
        return taskless
    action = action_of(instance)
    return action if action is not None and action.awaits(body) else None


def is_taskless(body: CommandBody) -> bool:
    """Whether the command is of an action beside the server's tasks."""
    return type(body) in _taskless


def abandoned(instance: Instance, body: CommandBody) -> None:
    """Call ``abandoned`` of the action that sends this type of command, for a command that no task waits for."""
    senders = [action for action in host_actions.values() if action.task is not None and action.body is type(body)]
    for action in senders[:1]:
        action.abandoned(instance, body)


def commanded_tasks() -> list[TaskState]:
    """Return the tasks that wait for one command to one host; not deletions, whose command is sent repeatedly."""
    of_volumes = {stage.task for action in of_task.values() for stage in action.stages if stage.of_volume}
    on_one_host = {task: action for task, action in of_task.items() if not action.two_hosts and task not in of_volumes}
    return [task for task, action in on_one_host.items() if action.body is not DestroyRequest]


def ways() -> dict[str, tuple[ServerAction[Any], DrainWay]]:
    """Return name → action and way, for the actions that free a server's host, the least disruptive one first."""
    pairs = [(each, each.way) for each in actions.values() if each.way is not None]
    return {way.name: (each, way) for each, way in sorted(pairs, key=lambda pair: pair[1].position)}


def with_buttons() -> list[ServerAction[Any]]:
    """Return the actions with buttons, in the order of the buttons."""
    shown = [action for action in actions.values() if action.button is not None]
    return sorted(shown, key=lambda action: action.button.position if action.button else 0)
