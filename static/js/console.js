// The console log, following live.  What the guest writes is hostile: it becomes text and nothing else.
const log = document.getElementById("console-log");
const follow = document.getElementById("console-follow");
const state = document.getElementById("console-state");
const KEPT = 400_000; // characters on the page; the download has all
const LONGEST_WAIT = 15000;

let following = true;
let offset = null;
let wait = 500;
let held = "";

// Colours, cursor moves and other control codes of a terminal: left out, a carriage return before a line end too.
const codes = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_]|[()][0-9A-B])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\r(?=\n)/g;

function write(text) {
    held += text;
    const open = held.lastIndexOf("\x1b"); // a code that is not whole yet waits for the rest
    const whole = open >= 0 && held.length - open < 16 && held.slice(open).replace(codes, "").includes("\x1b") ? open : held.length;
    log.append(held.slice(0, whole).replace(codes, "").replaceAll("\x1b", ""));
    held = held.slice(whole);
    if (log.textContent.length > KEPT) log.textContent = log.textContent.slice(-KEPT);
    log.normalize();
    if (following) log.scrollTop = log.scrollHeight;
}

function setFollowing(value) {
    following = value;
    follow.setAttribute("aria-pressed", String(value));
    follow.querySelector(".bi").className = value ? "bi bi-pause-fill" : "bi bi-play-fill";
    follow.querySelector("span").textContent = value ? "Pause" : "Follow";
    if (value) log.scrollTop = log.scrollHeight;
}

function connect() {
    const url = new URL(log.dataset.socket, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    if (offset !== null) url.searchParams.set("offset", String(offset));
    const socket = new WebSocket(url);
    let fresh = offset === null;
    socket.addEventListener("open", () => (state.textContent = ""));
    socket.addEventListener("message", (event) => {
        const message = JSON.parse(event.data);
        wait = 500;
        if (message.error) {
            state.textContent = message.error;
            if (fresh) log.dataset.empty = message.error; // nobody knows whether the guest has written anything
            return;
        }
        state.textContent = "";
        log.dataset.empty = log.dataset.read;
        if (message.offset === offset) return;
        if (fresh) log.textContent = "";
        else if (message.start !== offset) write("\n⋯\n"); // some in between is not kept
        fresh = false;
        offset = message.offset ?? offset;
        write(message.text ?? "");
    });
    socket.addEventListener("close", (event) => {
        if ([4401, 4403, 4404].includes(event.code)) return; // trying again would not help
        if (event.code === 4429) {
            state.textContent = event.reason;
            wait = LONGEST_WAIT;
        }
        setTimeout(connect, wait);
        wait = Math.min(wait * 2, LONGEST_WAIT);
    });
}

if (log) {
    follow.addEventListener("click", () => setFollowing(!following));
    log.addEventListener("wheel", (event) => event.deltaY < 0 && following && setFollowing(false), { passive: true });
    connect();
}
