// A remote console, in a window of its own or in the page of its server: noVNC for a screen, xterm.js for a serial line.
import { attach } from "./console-keys.js";
import { lineOf } from "./serial-terminal.js";
import { screenOf } from "./vnc-screen.js";

const screen = document.getElementById("screen");
const status = document.getElementById("console-status");
const full = document.getElementById("console-full");
const form = document.getElementById("console-ask"); // requests another console; absent for who may not
const again = form?.querySelector("[data-again]");
const seize = document.getElementById("console-take-over"); // absent for who may not replace another user

const TAKEN = 4410;
const BUSY = 4423;
const REASONS = {
    1000: "The console was closed.",
    1005: "The console was closed.",
    1006: "The connection broke.",
    4000: "The guest's console has closed.",
    4401: "This link of a console has expired, or your sign-in has ended.",
    4403: "You may not open this console.",
    4404: "The instance is deleted, or was rebuilt.",
    4408: "Nothing was typed or shown for a long time.",
    4409: "The instance does not run now.",
    [BUSY]: "Another user has this console open.",
    4429: "You have too many consoles open. Close one of them first.",
    4504: "The instance's host does not answer.",
};
const PASSING = [1006, 1001, 1011, 1012, 4000, BUSY, 4504]; // retried automatically
const ATTEMPTS = 60; // consecutive attempts without a console: about ten minutes
const LONGEST_WAIT = 10000;
const STABLE = 5000; // milliseconds after which a connection counts as one that lasts
let attempts = 0;
let current = null; // the socket of the console that is shown
let lasting = 0; // timers
let waiting = 0;

function say(state, text) {
    status.dataset.state = state;
    status.textContent = text;
}

function offer(code) {
    if (again) again.textContent = code === TAKEN ? "Connect here again" : "Reconnect";
    if (seize) seize.hidden = code !== BUSY;
}

function ended(code, reason) {
    attach(null);
    clearTimeout(lasting);
    offer(code);
    const why = REASONS[code] ?? (reason || "The console has ended.");
    const busy = code === BUSY && seize; // the user decides
    if (form && PASSING.includes(code) && attempts < ATTEMPTS && !busy) {
        const wait = Math.min(500 * 2 ** attempts, LONGEST_WAIT);
        attempts += 1;
        say("connecting", `${why} Reconnecting…`);
        waiting = setTimeout(ask, wait);
        return;
    }
    const next = form ? "" : " Open it again from the instance's page, or ask the API for another address.";
    say("ended", why + next);
}

// Another console of the same instance, for this window: an address works once.
async function ask(more = {}) {
    clearTimeout(waiting);
    waiting = 0;
    say("connecting", "Connecting…");
    const body = new URLSearchParams(new FormData(form));
    for (const [name, value] of Object.entries(more)) body.set(name, value);
    try {
        const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" }, redirect: "manual" });
        if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) return ended(4401, "");
        if (answer.status === 404) return ended(4404, "");
        if (!answer.ok) return ended(1006, "");
        const { socket, message } = await answer.json();
        if (socket) open(socket);
        else say("ended", message); // it cannot have one now
    } catch {
        ended(1006, "");
    }
}

function open(path) {
    const url = new URL(`/${path}`, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url, ["binary"]);
    socket.binaryType = "arraybuffer";
    const before = current;
    current = socket;
    before?.close();
    socket.addEventListener("close", (event) => socket === current && ended(event.code, event.reason));
    const show = screen.dataset.protocol === "vnc" ? screenOf : lineOf;
    show(socket, screen, (shown) => {
        lasting = setTimeout(() => (attempts = 0), STABLE);
        offer(0);
        say("connected", screen.dataset.protocol === "vnc" ? "Connected" : "Connected. Press Enter if nothing is shown.");
        attach(shown);
        shown.focus();
    });
}

function askNow(more) {
    attempts = 0;
    ask(more);
}

full.hidden = !document.fullscreenEnabled;
full.addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.documentElement.requestFullscreen();
});

form?.addEventListener("submit", (event) => {
    event.preventDefault();
    askNow();
});
seize?.addEventListener("click", () => askNow({ take_over: "on" }));

// A computer that was asleep, or without a network, does not wait for the next attempt.
window.addEventListener("online", () => status.dataset.state === "connecting" && waiting && askNow());

const path = screen.dataset.socket;
if (path) {
    // The address works once; it is of no use in the history.
    const bare = new URL(location.pathname, location.href);
    if (screen.dataset.instance) bare.searchParams.set("instance", screen.dataset.instance);
    history.replaceState(null, "", bare);
    open(path);
} else if (form && new URL(location.href).searchParams.get("instance")) {
    ask(); // the window was loaded again
} else {
    ended(4401, "");
}
