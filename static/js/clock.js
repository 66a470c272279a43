// Ages: <time datetime="…" data-format="age">.
// Running times: <time data-since="seconds since 1970" data-format="elapsed"> in the server's time.
// Moments: <time datetime="…" data-moment="minutes|seconds|clock|day"> in the zone of the browser; their titles stay in UTC.
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

const two = (number) => String(number).padStart(2, "0");

function moment(date, to) {
    const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
    if (to === "clock") return time;
    if (to === "day") return day.slice(5);
    return `${day} ${time}${to === "seconds" ? `:${two(date.getSeconds())}` : ""}`;
}

function localize() {
    for (const element of document.querySelectorAll("time[data-moment]")) {
        const text = moment(new Date(element.dateTime), element.dataset.moment);
        if (element.textContent !== text) element.textContent = text;
    }
    for (const element of document.querySelectorAll('time[data-format="age"]')) {
        const date = new Date(element.dateTime);
        element.title = `${moment(date)} · ${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
    }
}

function tick() {
    const now = Date.now() / 1000 - offset;
    for (const element of document.querySelectorAll("time[data-format]")) {
        const { since, format } = element.dataset;
        const seconds = Math.max(0, now - (since === undefined ? Date.parse(element.dateTime) / 1000 : Number(since)));
        const text = format === "elapsed" ? elapsed(seconds) : age(seconds);
        if (element.textContent !== text) element.textContent = text;
    }
}

function pace() {
    tick();
    setTimeout(pace, document.querySelector('[data-format="elapsed"]') ? 200 : 5000);
}

pace();
localize();
for (const name of ["novella:live", "novella:times", "htmx:afterSettle"]) {
    document.addEventListener(name, () => {
        localize();
        tick();
    });
}
