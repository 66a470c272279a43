"""The pages' scripts in Node, with as much of a page as they touch."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright._impl._driver import compute_driver_executable

NODE = compute_driver_executable()[0]
"""Playwright brings a Node, so that no machine is without one."""
SCRIPTS = Path(__file__).parents[2] / "static" / "js"

PAGE = """
const heard = {};
const element = (more = {}) => ({
    dataset: {}, classList: { toggle() {}, add() {} }, elements: {}, hidden: false, textContent: "",
    addEventListener(name, act) { (heard[name] ??= []).push(act); }, querySelector: () => element(),
    querySelectorAll: () => [], replaceChildren() {}, getAttribute: () => '{"X-CSRFToken": "t"}', close() {}, ...more,
});

const store = () => {
    const kept = {};
    return {
        getItem: (key) => kept[key] ?? null,
        setItem: (key, value) => (kept[key] = value),
        removeItem: (key) => delete kept[key],
    };
};
const byId = {};
globalThis.document = element({ body: element(), referrer: "", getElementById: (id) => byId[id] ?? null });
document.querySelector = () => null;
globalThis.window = globalThis;
globalThis.addEventListener = () => {};
globalThis.sessionStorage = store();
globalThis.localStorage = store();
globalThis.location = { href: "http://cloud/", pathname: "/", search: "", protocol: "http:" };
globalThis.Node = { ELEMENT_NODE: 1 };
globalThis.Idiomorph = { defaults: { callbacks: {} } };
const fire = (name, event = {}) => (heard[name] ?? []).forEach((act) => act(event));
const settled = () => new Promise((resolve) => setTimeout(resolve, 0));
"""


def run(place: Path, script: str, steps: str) -> Any:
    """Run steps, which import ``script`` with ``await start()`` and give a result to ``tell``, beside a copy of it."""
    (place / "package.json").write_text('{"type": "module"}')
    shutil.copy(SCRIPTS / script, place)
    start = f'const start = () => import("./{script}");\nconst tell = (it) => console.log(JSON.stringify(it));\n'
    (place / "run.js").write_text(PAGE + start + steps)
    done = subprocess.run([NODE, "run.js"], cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_hidden_fields_follow_the_filter_of_the_list(tmp_path: Path) -> None:
    steps = """
    await start();
    const kept = (matched) => !Idiomorph.defaults.callbacks.beforeNodeMorphed({
        nodeType: 1, matches: (selector) => selector.split(", ").some((each) => matched.includes(each)),
    });
    const typed = ["input", "input:not([type=hidden])"];
    tell([kept(["input"]), kept(typed)]);
    """
    assert run(tmp_path, "page.js", steps) == [False, True]


def test_a_console_asked_for_anew_ends_the_one_before_and_not_itself(tmp_path: Path) -> None:
    (tmp_path / "console-keys.js").write_text("export const attach = () => {};")
    (tmp_path / "serial-terminal.js").write_text("export const lineOf = () => {};")
    (tmp_path / "vnc-screen.js").write_text("export const screenOf = () => {};")
    steps = """
    const opened = [];
    globalThis.WebSocket = class {
        constructor() { opened.push(this); this.closed = false; }
        addEventListener(name, act) { this.act = act; }
        close() { this.closed = true; this.act({ code: 1005, reason: "" }); }
    };
    globalThis.history = { replaceState() {} };
    globalThis.FormData = class {};
    globalThis.fetch = async () => ({ ok: true, status: 200, json: async () => ({ socket: "ws/second" }) });
    byId.screen = element({ dataset: { protocol: "serial", socket: "ws/first" } });
    byId["console-status"] = element();
    byId["console-full"] = element();
    byId["console-ask"] = element({ action: "/ask" });
    globalThis.URLSearchParams = class {};
    await start();
    fire("submit", { preventDefault() {} });
    await settled();
    tell([opened.map((each) => each.closed), byId["console-status"].dataset.state]);
    """
    assert run(tmp_path, "console-window.js", steps) == [[True, False], "connecting"]


@pytest.mark.parametrize("may", [True, False])
def test_a_console_of_another_user_is_replaced_only_on_request(tmp_path: Path, *, may: bool) -> None:
    (tmp_path / "console-keys.js").write_text("export const attach = () => {};")
    (tmp_path / "serial-terminal.js").write_text("export const lineOf = () => {};")
    (tmp_path / "vnc-screen.js").write_text("export const screenOf = () => {};")
    steps = """
    const opened = [];
    const posted = [];
    const timers = [];
    globalThis.setTimeout = (act) => timers.push(act);
    globalThis.WebSocket = class {
        constructor() { opened.push(this); }
        addEventListener(name, act) { this.act = act; }
        close() {}
    };
    globalThis.history = { replaceState() {} };
    globalThis.FormData = class { *[Symbol.iterator]() { yield ["csrf", "t"]; } };
    globalThis.fetch = async (_, { body }) => {
        posted.push(body.toString());
        return { ok: true, status: 200, json: async () => ({ socket: "ws/next" }) };
    };
    byId.screen = element({ dataset: { protocol: "serial", socket: "ws/first" } });
    byId["console-status"] = element();
    byId["console-full"] = element();
    byId["console-ask"] = element({ action: "/ask" });
    let take = () => {};
    if (MAY) byId["console-take-over"] = element({ hidden: true, addEventListener: (_, act) => (take = act) });
    await start();
    opened[0].act({ code: 4423, reason: "" });
    const offered = byId["console-take-over"]?.hidden === false;
    const waits = timers.length > 0;
    take();
    await Promise.resolve();
    tell([offered, waits, posted]);
    """
    result = run(tmp_path, "console-window.js", steps.replace("MAY", str(may).lower()))
    assert result == ([True, False, ["csrf=t&take_over=on"]] if may else [False, True, []])


@pytest.mark.parametrize(
    ("way", "restored"), [("escape", "typed"), ("outside", "typed"), ("dragged", "open"), ("button", "")]
)
def test_what_was_typed_in_a_dialog_survives_a_stray_key_or_press(tmp_path: Path, way: str, restored: str) -> None:
    steps = f"""
    globalThis.Event = class {{}};
    const field = (value) => ({{ name: "name", type: "text", value, defaultValue: "" }});
    const form = (value) => ({{ elements: [field(value)], action: "http://cloud/rename/", dispatchEvent() {{}} }});
    const typed = form("typed"), later = form("");
    let shown = [typed], closed = false;
    const acts = {{}};
    const dialog = {{
        id: "dialog", open: true, childElementCount: 1, querySelectorAll: () => shown, replaceChildren() {{}},
        addEventListener: (name, act) => (acts[name] = act), close() {{ closed = true; }},
    }};
    byId.dialog = dialog;
    byId.main = element({{ querySelectorAll: () => [] }});
    await start();
    const press = (from) => {{
        acts.pointerdown({{ target: from }});
        acts.click({{ target: dialog }});
    }};
    if ("{way}" === "escape") acts.cancel();
    if ("{way}" === "outside") press(dialog);
    if ("{way}" === "dragged") press(typed.elements[0]);
    shown = [later];
    fire("htmx:afterSwap", {{ detail: {{ target: dialog }} }});
    tell("{way}" === "dragged" && !closed ? "open" : later.elements[0].value);
    """
    assert run(tmp_path, "page.js", steps) == restored


@pytest.mark.parametrize(("person", "restored"), [("u", "typed"), ("other", "")])
def test_what_was_typed_survives_the_sign_in_of_the_same_person(tmp_path: Path, person: str, restored: str) -> None:
    """The pages of one tab, one after the other: the form, the sign-in with its own form, the form again."""
    shutil.copy(SCRIPTS / "page.js", tmp_path / "sign-in.js")
    shutil.copy(SCRIPTS / "page.js", tmp_path / "after.js")
    steps = f"""
    globalThis.Event = class {{}};
    globalThis.CustomEvent = class {{}};
    const form = (value) => ({{
        elements: [{{ name: "name", type: "text", value }}], action: "http://cloud/launch/", dispatchEvent() {{}},
        matches: () => false, closest: () => null, dataset: {{}},
    }});
    const first = form("typed"), then = form("");
    byId.main = element({{ querySelectorAll: () => [] }});
    document.body.dataset = {{ user: "u" }};
    document.querySelectorAll = (it) => (it.startsWith("#main form") ? [first] : []);
    await start();
    fire("novella:signed-out");

    for (const name of Object.keys(heard)) delete heard[name];
    delete byId.main;
    document.body.dataset = {{}};
    document.querySelectorAll = () => [];
    await import("./sign-in.js");
    fire("submit", {{ target: form("name") }});

    byId.main = element({{ querySelectorAll: () => [then] }});
    document.referrer = "http://cloud/auth/login/";
    document.body.dataset = {{ user: "{person}" }};
    await import("./after.js");
    tell([then.elements[0].value, sessionStorage.getItem("novella-drafts")]);
    """
    assert run(tmp_path, "page.js", steps) == [restored, None]


@pytest.mark.parametrize(("found", "kept", "offered"), [("", False, True), ("role=alert", True, False)])
def test_the_draft_of_a_refused_launch_is_kept(tmp_path: Path, found: str, kept: bool, offered: bool) -> None:
    """Limits that are exceeded are marked like errors, but nothing was sent then."""
    steps = f"""
    globalThis.addEventListener = (name, act) => (heard[name] ??= []).push(act);
    document.body.dataset = {{ user: "u" }};
    byId.draft = element({{ hidden: true }});
    const found = (it) => it === ".field-error" || it.includes("{found or "none"}");
    byId.wizard = element({{ querySelector: (it) => (found(it) ? element() : null) }});
    byId.wizard.elements = [{{ name: "name", type: "text", value: "typed", form: byId.wizard }}];
    sessionStorage.setItem("novella-launch", JSON.stringify({{ user: "u", values: [] }}));
    await start();
    fire("pagehide");
    tell([sessionStorage.getItem("novella-launch").includes("typed"), !byId.draft.hidden]);
    """
    assert run(tmp_path, "launch.js", steps) == [kept, offered]
