// One action on many instances: the answer to the question is sent in parts, while people go on; what is left goes on with
// the next page.  A tray tells how far it is, and in the end what was refused and why.
const KEY = "novella-bulk"; // in sessionStorage:
// {user, project, action, label, asked: when, left: ids, force: those deleted for good, sent: whether the first part is,
//  total, done, refused: [{name, message}]}
const PART = 10; // instances in one request
const LONGEST_WAIT = 60; // seconds
const tray = document.getElementById("bulk-tray");
const token = () => JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"];
let running = false;
const { user, project } = document.body.dataset;
const SIGNED_OUT = "signed out";

// What another person left in this tab is nothing to this one.
function read() {
    const work = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    return work?.user === user ? work : null;
}
const here = (work) => work.project === project;
const keep = (work) => (work ? sessionStorage.setItem(KEY, JSON.stringify(work)) : sessionStorage.removeItem(KEY));
const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

function show(work, told = "") {
    const over = !work.left.length;
    tray.hidden = false;
    tray.dataset.state = over ? (work.refused.length ? "refused" : "done") : "running";
    tray.querySelector("[data-bulk-words]").textContent = told || `${work.label}: ${work.done} of ${work.total}`;
    const bar = tray.querySelector("progress");
    bar.hidden = over;
    bar.max = work.total;
    bar.value = work.total - work.left.length;
    const list = tray.querySelector("ul");
    list.replaceChildren(
        ...work.refused.map(({ name, message }) => {
            const line = document.createElement("li");
            const who = document.createElement("bdi");
            who.textContent = name;
            line.append(who, `: ${message}`);
            return line;
        }),
    );
    tray.querySelector("[data-bulk-close]").hidden = !over && here(work); // what waits can be given up
}

async function send(work, ids) {
    const body = new URLSearchParams();
    body.set("project", work.project);
    for (const id of ids) body.append("ids", id);
    for (const id of ids) if (work.force.includes(id)) body.append("force", id);
    if (work.sent) body.set("again", work.asked); // the page before was left without the answer
    work.sent = true;
    keep(work);
    const answer = await fetch(work.action, { method: "POST", body, redirect: "manual", headers: { Accept: "application/json", "X-CSRFToken": token() } });
    if (answer.status === 429) work.sent = false;
    if (answer.status === 429) return Number(answer.headers.get("Retry-After")) || 1;
    if (answer.type === "opaqueredirect" || answer.status === 401) throw new Error(SIGNED_OUT);
    if (answer.status === 403) throw new Error("You may not do this any more.");
    if (!answer.ok) throw new TypeError(`The server answered ${answer.status}.`);
    const { done, refused } = await answer.json();
    work.sent = false;
    work.left = work.left.slice(ids.length);
    work.done += done.length;
    work.refused.push(...refused);
    return 0;
}

async function run() {
    if (running) return;
    running = true;
    let pause = 1;
    for (let work = read(); work?.left.length; work = read()) {
        show(work);
        const before = work.sent;
        try {
            const seconds = await send(work, work.left.slice(0, PART));
            keep(work);
            pause = 1;
            if (seconds) {
                show(work, `${work.label}: ${work.done} of ${work.total}. It goes on in ${seconds} s, when more changes are allowed.`);
                await wait(Math.min(seconds, LONGEST_WAIT));
            }
        } catch (error) {
            if (error.message === SIGNED_OUT) {
                work.sent = before;
                keep(work);
                show(work, `${work.label}: ${work.done} of ${work.total}. You are signed out: it goes on when you have signed in.`);
                running = false;
                return;
            }
            if (!(error instanceof TypeError)) {
                work.refused.push({ name: `${work.left.length} instances`, message: error.message });
                work.left = [];
                keep(work);
                break;
            }
            show(work, `The server cannot be reached. Trying again in ${pause} s.`);
            await wait(pause);
            pause = Math.min(2 * pause, LONGEST_WAIT);
        }
    }
    running = false;
    const work = read();
    if (work) show(work);
}

document.addEventListener(
    "submit",
    (event) => {
        const form = event.target;
        if (!form.dataset.inParts) return;
        const ids = [...form.querySelectorAll('[name="ids"]')].map((each) => each.value);
        if (ids.length < 2) return; // one is answered as a question about one
        event.preventDefault();
        event.stopImmediatePropagation();
        const before = read();
        if (before?.left.length) {
            document.dispatchEvent(new CustomEvent("novella:told", { detail: "Another action on many instances goes on. Wait until it is done." }));
            return;
        }
        const force = [...form.querySelectorAll('[name="force"]')].map((each) => each.value);
        const asked = form.elements.asked.value;
        const action = form.getAttribute("action");
        keep({ user, project, action, label: form.dataset.inParts, asked, left: ids, force, total: ids.length, done: 0, refused: [] });
        form.closest("dialog")?.close();
        for (const box of document.querySelectorAll(".list :checked")) box.checked = false;
        document.dispatchEvent(new CustomEvent("novella:live"));
        if (!form.closest("dialog")) location.assign(form.querySelector("[data-close]").href);
        else run();
    },
    true,
);

tray?.querySelector("[data-bulk-close]").addEventListener("click", () => {
    keep(null);
    tray.hidden = true;
});

// A tab that is closed takes the rest with it: say so before.  Another page of the dashboard goes on with it.
if (tray && read()) {
    const work = read();
    if (!work.left.length) show(work);
    else if (here(work)) run();
    else show(work, `${work.label}: ${work.done} of ${work.total}. It goes on when you are in its project again.`);
}
