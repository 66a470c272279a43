// The values of a chart under the pointer, read from its lines. The server draws the charts (dashboard/graphs).

// As units.py: the unit with the largest size that a value reaches, and three digits.
function text(value, units) {
    const steps = units.split("|").map((step) => step.split(/ (.*)/));
    const [size, name] = steps.findLast(([each]) => value >= Number(each)) ?? steps[0];
    const amount = value / Number(size);
    const digits = amount >= 99.95 || amount === 0 ? 0 : amount >= 9.995 ? 1 : 2;
    return `${Number(amount.toFixed(digits))}${name ? `\u00a0${name}` : ""}`;
}

function heights(path) {
    return new Map([...path.getAttribute("d").matchAll(/[ML](\d+) (\d+)/g)].map(([, x, y]) => [Number(x), Number(y)]));
}

function show(graph, x) {
    const svg = graph.querySelector("svg");
    const { height } = svg.viewBox.baseVal;
    const { start, step, top, units } = graph.dataset;
    const lines = [...graph.querySelectorAll(".line")].map(heights);
    graph.querySelectorAll("[data-value]").forEach((value, number) => {
        const y = lines[number].get(x);
        value.textContent = y === undefined ? "–" : text(((height - y) / height) * Number(top), units);
    });
    graph.querySelector(".cross").setAttribute("d", `M${x} 0V${height}`);
    const at = document.createElement("time");
    at.dateTime = new Date((Number(start) + x * Number(step)) * 1000).toISOString();
    at.dataset.moment = "minutes";
    graph.querySelector(".graph-at").replaceChildren(at);
    document.dispatchEvent(new CustomEvent("novella:times")); // clock.js writes the time in the reader's zone
}

function leave(graph) {
    for (const value of graph.querySelectorAll("[data-value]")) value.textContent = value.dataset.value;
    graph.querySelector(".cross").setAttribute("d", "");
    graph.querySelector(".graph-at").replaceChildren();
}

document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.("[data-graph] svg");
    if (!svg) return;
    const { left, width } = svg.getBoundingClientRect();
    const points = svg.viewBox.baseVal.width;
    show(svg.closest("[data-graph]"), Math.max(0, Math.min(points - 1, Math.floor(((event.clientX - left) / width) * points))));
});

document.addEventListener("pointerout", (event) => {
    const svg = event.target.closest?.("[data-graph] svg");
    if (svg && !svg.contains(event.relatedTarget)) leave(svg.closest("[data-graph]"));
});

// Nothing is drawn again in a tab that nobody sees, under the pointer, or while a table is read.
document.body.addEventListener("htmx:beforeRequest", (event) => {
    const graphs = event.target.closest?.("[data-graphs]");
    if (graphs !== event.target) return;
    if (document.hidden || graphs.querySelector("details[open], svg:hover")) event.preventDefault();
});
