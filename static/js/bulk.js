// One action on many instances: the answer to the question is sent in parts, while people go on; what is left goes on with
// the next page.  A tray tells how far it is, and in the end what was refused and why.
const KEY = "novella-bulk"; // in sessionStorage: {action, label, left: ids, sent: whether their first part is, total, done, refused: [{name, message}]}
const PART = 10; // instances in one request
const LONGEST_WAIT = 60; // seconds
const tray = document.getElementById("bulk-tray");
const token = () => JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"];
let running = false;

const read = () => JSON.parse(sessionStorage.getItem(KEY) ?? "null");
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
    tray.querySelector("[data-bulk-close]").hidden = !over;
}

async function send(work, ids) {
    const body = new URLSearchParams();
    for (const id of ids) body.append("ids", id);
    if (work.sent) body.set("again", "1"); // the page before was left without the answer
    work.sent = true;
    keep(work);
    const answer = await fetch(work.action, { method: "POST", body, redirect: "manual", headers: { Accept: "application/json", "X-CSRFToken": token() } });
    if (answer.status === 429) work.sent = false;
    if (answer.status === 429) return Number(answer.headers.get("Retry-After")) || 1;
    if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) throw new Error("You may not do this any more.");
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
        try {
            const seconds = await send(work, work.left.slice(0, PART));
            keep(work);
            pause = 1;
            if (seconds) {
                show(work, `${work.label}: ${work.done} of ${work.total}. It goes on in ${seconds} s, when more changes are allowed.`);
                await wait(Math.min(seconds, LONGEST_WAIT));
            }
        } catch (error) {
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
        keep({ action: form.getAttribute("action"), label: form.dataset.inParts, left: ids, total: ids.length, done: 0, refused: [] });
        form.closest("dialog")?.close();
        for (const box of document.querySelectorAll('[name="ids"]:checked, [data-pick-all]:checked')) box.checked = false;
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
    if (read().left.length) run();
    else show(read());
}
