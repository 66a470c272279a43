// The palette (Ctrl-K): a combobox over /search/.  Without a text it shows what is starred and what was opened last.
const palette = document.getElementById("palette");
const field = palette?.querySelector("input");
const list = document.getElementById("palette-list");
const RECENT = "novella-recent"; // {user, project, opened: [{title, to}]}, newest first; forgotten at sign-out
const MOST_RECENT = 8;
const PAUSE = 120; // milliseconds without a key before the search
const { user: person, project: place } = document.body.dataset;
let timer = 0;
let asked = null; // the request under way

function opened() {
    const kept = JSON.parse(localStorage.getItem(RECENT) ?? "null");
    return kept?.user === person && kept.project === place ? kept.opened : [];
}

const thing = document.querySelector("[data-thing]");
if (thing) {
    const entry = { title: thing.dataset.thing, to: thing.dataset.thingAddress };
    const rest = opened().filter((each) => each.to !== entry.to);
    localStorage.setItem(RECENT, JSON.stringify({ user: person, project: place, opened: [entry, ...rest].slice(0, MOST_RECENT) }));
}
document.addEventListener("submit", (event) => event.target.matches('[action$="/auth/logout/"]') && localStorage.removeItem(RECENT));

const options = () => [...list.querySelectorAll("[data-to]")];

function choose(option) {
    for (const each of options()) each.setAttribute("aria-selected", String(each === option));
    field.setAttribute("aria-activedescendant", option?.id ?? "");
    option?.scrollIntoView({ block: "nearest" });
}

function group(title, entries) {
    const box = document.createElement("div");
    const heading = document.createElement("div");
    heading.id = `palette-${title}`;
    heading.className = "nav-heading";
    heading.textContent = title;
    box.setAttribute("role", "group");
    box.setAttribute("aria-labelledby", heading.id);
    box.append(heading);
    entries.forEach((entry, number) => {
        const option = document.createElement("div");
        const name = document.createElement("bdi");
        name.textContent = entry.title;
        option.id = `palette-${title}-${number}`;
        option.dataset.to = entry.to;
        option.setAttribute("role", "option");
        option.append(name);
        box.append(option);
    });
    return box;
}

// Nothing was typed yet.
function suggest() {
    const starred = [...document.querySelectorAll(".sidebar [data-starred] a")].map((each) => ({ title: each.textContent.trim(), to: each.getAttribute("href") }));
    const recent = opened().filter((each) => each.to !== location.pathname);
    list.replaceChildren(...[["Starred", starred], ["Recent", recent]].filter(([, found]) => found.length).map(([title, found]) => group(title, found)));
    choose(options()[0]);
}

async function find() {
    asked?.abort();
    const text = field.value.trim();
    if (!text) {
        suggest();
        return;
    }
    asked = new AbortController();
    try {
        const answer = await fetch(`${field.form.action}?q=${encodeURIComponent(text)}`, { headers: { "HX-Request": "true" }, signal: asked.signal });
        if (answer.status === 401) location.reload();
        if (!answer.ok || answer.redirected) return;
        list.innerHTML = await answer.text();
        choose(options()[0]);
        document.getElementById("announcer").textContent = `${options().length} results`;
    } catch (error) {
        if (error.name !== "AbortError") list.replaceChildren("The server cannot be reached.");
    }
}

function show() {
    if (palette.open) return;
    field.value = "";
    suggest();
    palette.showModal();
    field.focus();
}

function go(option) {
    if (option) location.assign(option.dataset.to);
}

field?.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
        timer = 0;
        find();
    }, PAUSE);
});

field?.addEventListener("keydown", (event) => {
    const all = options();
    const at = all.findIndex((each) => each.getAttribute("aria-selected") === "true");
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (to === undefined || !all.length) return;
    event.preventDefault();
    choose(all.at(to % all.length));
});

field?.form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const typed = timer; // what was typed last was not searched yet
    clearTimeout(timer);
    timer = 0;
    if (typed) await find();
    go(options().find((each) => each.getAttribute("aria-selected") === "true"));
});

list?.addEventListener("click", (event) => go(event.target.closest("[data-to]")));
palette?.addEventListener("click", (event) => event.target === palette && palette.close());

document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-palette]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    document.getElementById("more")?.close();
    show();
});

document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    if (!palette || event.target.closest?.(".xterm, canvas") || document.querySelector("dialog[open]:not(#palette)")) return; // a guest's own keys
    event.preventDefault();
    show();
});
