// One socket per page.  The server renders partials; this module puts them in place by id and knows no state of the cloud.
// <main data-live-page="instances" data-live-since="42"> switches it on.  In the partials:
//   data-live-remove              take the element of this id away
// A part of the page that names another page, as a list does when its filter changes (data-live-page), is followed instead.
//   data-live-order="<ids>"       rows of a list: the ids of all rows that belong on its page, in order
//   data-live-container="<id>"    where an element that is not on the page yet belongs (first, or last with data-live-last)
const main = document.getElementById("main");
const mark = document.getElementById("live-mark");
const announcer = document.getElementById("announcer");
const ENDED = 4401; // the sign-in is over
const REFUSED = [4403, 4404]; // trying again would not help
const TOO_MANY = 4429; // as many pages are live as may be; one of them may be closed later
const LONGEST_WAIT = 15000;

let since = Number(main?.dataset.livePage && main.dataset.liveSince);
let followed = main?.dataset.livePage;
let socket = null;
let wait = 500;
let timer = 0;
let leaving = false; // a form is under way, and its answer is the next page

function show(state, text) {
    if (!mark) return;
    mark.hidden = false;
    mark.dataset.state = state;
    mark.querySelector("span").textContent = text;
}

// What a person has folded or unfolded stays so.
function keepUnfolded(name, node) {
    return !(name === "open" && node.tagName === "DETAILS");
}

function place(element) {
    const present = document.getElementById(element.id);
    if ("liveRemove" in element.dataset) {
        present?.remove();
    } else if (present) {
        Idiomorph.morph(present, element, { morphStyle: "outerHTML", callbacks: { beforeAttributeUpdated: keepUnfolded } });
        htmx.process(document.getElementById(element.id));
    } else {
        const container = document.getElementById(element.dataset.liveContainer ?? "");
        if (!container) return;
        container["liveLast" in element.dataset ? "append" : "prepend"](element);
        htmx.process(element);
    }
}

// The changed rows of a list, and the ids of all rows on its page in their order (data-live-order).  Rows keep their
// element, so that menus and ticked boxes stay; a row that is neither here nor sent has come from another page.
function arrange(sent) {
    const rows = document.getElementById(sent.id);
    if (!rows) return;
    const order = sent.dataset.liveOrder.split(" ").filter(Boolean);
    const fresh = new Map([...sent.children].map((row) => [row.id, row]));
    const focused = document.activeElement;
    for (const row of [...rows.children]) if (!order.includes(row.id)) row.remove();
    let next = rows.firstElementChild;
    let missing = false;
    for (const id of order) {
        const known = rows.contains(document.getElementById(id));
        if (known && fresh.has(id)) place(fresh.get(id));
        const row = document.getElementById(id) ?? fresh.get(id);
        if (!row) missing = true;
        else if (row === next) next = row.nextElementSibling;
        else {
            rows.insertBefore(row, next);
            if (!known) htmx.process(row);
        }
    }
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    if (missing) refetch();
}

let frames = 0; // that have changed the page
let refetching = 0;
function refetch() {
    refetching ||= setTimeout(async () => {
        const before = frames;
        await htmx.ajax("GET", location.href, { target: "#list", select: "#list", swap: "morph:outerHTML" });
        refetching = 0;
        if (frames !== before) refetch(); // the answer may be older than what came in the meantime
    }, 1000);
}

function receive(message) {
    if (message.id) since = Math.max(since, message.id);
    if (message.resync) {
        reload();
        return;
    }
    if (!message.html) return;
    frames += 1;
    const template = document.createElement("template");
    template.innerHTML = message.html;
    // Rows come in a table of their own: after rows without one, a browser would close each form before its buttons.
    for (const element of [...template.content.children].map((each) => each.tBodies?.[0] ?? each)) {
        const said = (element.dataset.liveSay ? element : element.querySelector("[data-live-say]"))?.dataset.liveSay;
        if ("liveOrder" in element.dataset) arrange(element);
        else if (element.id) place(element);
        if (said && announcer && announcer.textContent !== said) announcer.textContent = said;
    }
    document.dispatchEvent(new CustomEvent("novella:live"));
}

// The log no longer reaches back to what this page has seen: fetch the page's content anew.
async function reload() {
    await htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "morph:outerHTML" });
    since = Number(document.getElementById("main").dataset.liveSince);
    socket?.close();
}

function connect() {
    clearTimeout(timer);
    const url = new URL("/ws/dashboard", location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("page", followed);
    url.searchParams.set("since", String(since));
    const opened = (socket = new WebSocket(url));
    socket.addEventListener("open", () => {
        if (socket !== opened) return;
        wait = 500;
        show("live", "Live");
    });
    socket.addEventListener("message", (event) => socket === opened && receive(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => {
        if (socket !== opened) return; // another page is followed by now
        socket = null;
        if (event.code === ENDED) {
            show("ended", "Signed out");
            document.dispatchEvent(new CustomEvent("novella:signed-out")); // page.js keeps what was typed
            if (leaving) return;
            location.assign("/auth/login/?next=" + encodeURIComponent(location.pathname + location.search));
            return;
        }
        if (REFUSED.includes(event.code)) {
            show("ended", "Not live");
            return;
        }
        if (event.code === TOO_MANY) wait = LONGEST_WAIT;
        show("offline", event.code === TOO_MANY ? "Not live: too many pages are open" : "Reconnecting");
        timer = setTimeout(connect, wait * (0.75 + Math.random() / 2));
        wait = Math.min(wait * 2, LONGEST_WAIT);
    });
}

// The person has narrowed the list: follow what it shows now, from the moment at which it was read.
function follow() {
    const part = document.querySelector("#main [data-live-page]");
    if (!part || part.dataset.livePage === followed) return;
    followed = part.dataset.livePage;
    since = Number(part.dataset.liveSince);
    const before = socket;
    connect();
    // The browser reports an error if a socket is closed before it is open.
    if (before?.readyState === WebSocket.CONNECTING) before.addEventListener("open", () => before.close());
    else before?.close();
}

function hurry() {
    if (!socket && !document.hidden) connect();
}

if (main?.dataset.livePage) {
    connect();
    document.body.addEventListener("htmx:afterSettle", follow);
    addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
    addEventListener("pagehide", () => clearTimeout(timer));
    addEventListener("submit", (event) => (leaving ||= !event.defaultPrevented && !event.target.target));
    addEventListener("pageshow", () => (leaving = false));
}
