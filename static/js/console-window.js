// A remote console in a window of its own: noVNC for a screen, xterm.js for a serial line.
import RFB from "../vendor/novnc/core/rfb.js";
import { terminal } from "./serial-terminal.js";

const screen = document.getElementById("screen");
const status = document.getElementById("console-status");
const full = document.getElementById("console-full");
const cad = document.getElementById("console-cad");

const REASONS = {
    1000: "The console was closed.",
    1005: "The console was closed.",
    1006: "The connection broke.",
    4000: "The guest's console has closed.",
    4401: "This address of a console was used, has expired, or your sign-in has ended.",
    4403: "You may not open this console.",
    4404: "The server is gone, or was made anew.",
    4408: "Nothing was typed or shown for a long time.",
    4409: "The server does not run now.",
    4423: "Somebody else has this console open.",
    4429: "You have too many consoles open. Close one of them first.",
    4504: "The server's host does not answer.",
};

function say(state, text) {
    status.dataset.state = state;
    status.textContent = text;
    if (cad) cad.disabled = state !== "connected";
}

function ended(code, reason) {
    const next = screen.dataset.mayAsk === "yes" ? " Reconnect for another one." : " Open it again from the server's page, or ask the API for another address.";
    say("ended", (REASONS[code] ?? (reason || "The console has ended.")) + next);
}

function open(path) {
    const url = new URL(`/${path}`, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url, ["binary"]);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("close", (event) => ended(event.code, event.reason));
    return socket;
}

function showScreen(socket) {
    const rfb = new RFB(document.getElementById("console-vnc"), socket, { shared: true });
    rfb.scaleViewport = true;
    rfb.background = "transparent";
    rfb.addEventListener("connect", () => {
        say("connected", "Connected");
        rfb.focus();
    });
    rfb.addEventListener("securityfailure", () => socket.close());
    cad.addEventListener("click", () => {
        rfb.sendCtrlAltDel();
        rfb.focus();
    });
}

function showLine(socket) {
    const line = terminal(document.getElementById("console-serial"), (bytes) => socket.readyState === WebSocket.OPEN && socket.send(bytes));
    socket.addEventListener("open", () => {
        say("connected", "Connected. Press Enter if nothing is shown.");
        line.focus();
    });
    socket.addEventListener("message", (event) => line.write(new Uint8Array(event.data)));
}

full.hidden = !document.fullscreenEnabled;
full.addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.documentElement.requestFullscreen();
});

const path = screen.dataset.socket;
if (path) {
    // The address works once; it is of no use in the history.
    const bare = new URL(location.pathname, location.href);
    if (screen.dataset.instance) bare.searchParams.set("instance", screen.dataset.instance);
    history.replaceState(null, "", bare);
    const socket = open(path);
    if (screen.dataset.protocol === "vnc") showScreen(socket);
    else showLine(socket);
} else {
    ended(4401, "");
}
