// One socket per page.  The server renders partials; this module puts them in place by id and knows no state of the cloud.
// <main data-live-page="instances" data-live-since="42"> switches it on.  In the partials:
//   data-live-remove              take the element of this id away
//   data-live-container="<id>"    where an element that is not on the page yet belongs (first, or last with data-live-last)
const main = document.getElementById("main");
const mark = document.getElementById("live-mark");
const announcer = document.getElementById("announcer");
const ENDED = 4401; // the sign-in is over
const REFUSED = [4403, 4404]; // trying again would not help
const TOO_MANY = 4429; // as many pages are live as may be; one of them may be closed later
const LONGEST_WAIT = 15000;

let since = Number(main?.dataset.livePage && main.dataset.liveSince);
let socket = null;
let wait = 500;
let timer = 0;

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

function receive(message) {
    if (message.id) since = Math.max(since, message.id);
    if (message.resync) {
        reload();
        return;
    }
    if (!message.html) return;
    const template = document.createElement("template");
    template.innerHTML = message.html;
    for (const element of [...template.content.children]) {
        const said = element.dataset.liveSay;
        if (element.id) place(element);
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
    url.searchParams.set("page", main.dataset.livePage);
    url.searchParams.set("since", String(since));
    socket = new WebSocket(url);
    socket.addEventListener("open", () => {
        wait = 500;
        show("live", "Live");
    });
    socket.addEventListener("message", (event) => receive(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => {
        socket = null;
        if (event.code === ENDED) {
            show("ended", "Signed out");
            location.assign("/auth/login/?next=" + encodeURIComponent(location.pathname));
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

function hurry() {
    if (!socket && !document.hidden) connect();
}

if (main?.dataset.livePage) {
    connect();
    addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
    addEventListener("pagehide", () => clearTimeout(timer));
}
