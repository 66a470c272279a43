// Ages and running times: <time data-since="seconds since 1970" data-format="age|elapsed"> in the server's time.
const offset = Date.now() / 1000 - Number(document.documentElement.dataset.now);

function age(seconds) {
    if (seconds < 60) return "just now";
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
}

function elapsed(seconds) {
    if (seconds < 60) return `${seconds.toFixed(1)} s`;
    return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

function tick() {
    const now = Date.now() / 1000 - offset;
    for (const element of document.querySelectorAll("[data-since]")) {
        const seconds = Math.max(0, now - Number(element.dataset.since));
        const text = element.dataset.format === "elapsed" ? elapsed(seconds) : age(seconds);
        if (element.textContent !== text) element.textContent = text;
    }
}

function pace() {
    tick();
    setTimeout(pace, document.querySelector('[data-format="elapsed"]') ? 200 : 5000);
}

pace();
document.addEventListener("novella:live", tick);
