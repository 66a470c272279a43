// A remote console in a window of its own: noVNC for a screen, xterm.js for a serial line.
import { attach } from "./console-keys.js";
import { lineOf } from "./serial-terminal.js";
import { screenOf } from "./vnc-screen.js";

const screen = document.getElementById("screen");
const status = document.getElementById("console-status");
const full = document.getElementById("console-full");
const form = document.getElementById("console-ask"); // asks for another console; absent for who may not

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
    4410: "You have opened this console in another window.",
    4423: "Somebody else has this console open.",
    4429: "You have too many consoles open. Close one of them first.",
    4504: "The instance's host does not answer.",
};
const PASSING = [1006, 1001, 1011, 1012, 4000, 4423, 4504]; // it may go on by itself
const ATTEMPTS = 8; // one after the other without a console in between
const LONGEST_WAIT = 10000;
let attempts = 0;
let current = null; // the socket of the console that is shown

function say(state, text) {
    status.dataset.state = state;
    status.textContent = text;
}

function ended(code, reason) {
    attach(null);
    const why = REASONS[code] ?? (reason || "The console has ended.");
    if (form && PASSING.includes(code) && attempts < ATTEMPTS) {
        const wait = Math.min(500 * 2 ** attempts, LONGEST_WAIT);
        attempts += 1;
        say("connecting", `${why} Reconnecting…`);
        setTimeout(ask, wait);
        return;
    }
    const next = form ? " Reconnect for another one." : " Open it again from the instance's page, or ask the API for another address.";
    say("ended", why + next);
}

// Another console of the same instance, for this window: an address works once.
async function ask() {
    say("connecting", "Connecting…");
    try {
        const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { Accept: "application/json" }, redirect: "manual" });
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
        attempts = 0;
        say("connected", screen.dataset.protocol === "vnc" ? "Connected" : "Connected. Press Enter if nothing is shown.");
        attach(shown);
        shown.focus();
    });
}

full.hidden = !document.fullscreenEnabled;
full.addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.documentElement.requestFullscreen();
});

form?.addEventListener("submit", (event) => {
    event.preventDefault();
    attempts = 0;
    ask();
});

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
