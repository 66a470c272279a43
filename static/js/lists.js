// The selection of a list: how many rows are ticked, and "all that match", which ticks the page and stands for the rest.
function count(list) {
    const boxes = [...list.querySelectorAll('tbody input[name="id"]')];
    const ticked = boxes.filter((box) => box.checked).length;
    const page = list.querySelector("[data-pick-all]");
    if (!page) return;
    page.checked = ticked > 0 && ticked === boxes.length;
    page.indeterminate = ticked > 0 && !page.checked;
    const every = list.querySelector('[name="selection"]');
    if (every && !page.checked) every.checked = false;
    list.querySelector("[data-picked-count]").textContent = `${every?.checked ? every.dataset.total : ticked} selected`;
}

const again = () => document.querySelectorAll(".list").forEach(count);

// A new list does not change the text that is being typed, so this removes a search that a chip or a link has removed.
function search() {
    const field = document.querySelector('.list .tools [name="q"]');
    if (field && field !== document.activeElement) field.value = new URLSearchParams(location.search).get("q") ?? "";
}

document.addEventListener("change", (event) => {
    const list = event.target.closest?.(".list");
    if (!list) return;
    if (event.target.matches("[data-pick-all]") || (event.target.name === "selection" && event.target.checked)) {
        for (const box of list.querySelectorAll('tbody input[name="id"]')) box.checked = event.target.checked;
    }
    count(list);
});
let previous = null; // the box that was clicked before: Shift and a click set all boxes between
document.addEventListener("click", (event) => {
    if (!event.target.matches?.('.list tbody input[name="id"]')) return;
    const boxes = [...event.target.closest("tbody").querySelectorAll('input[name="id"]')];
    const between = [boxes.indexOf(previous), boxes.indexOf(event.target)].sort((a, b) => a - b);
    if (event.shiftKey && between[0] >= 0) {
        for (const box of boxes.slice(between[0], between[1] + 1)) box.checked = event.target.checked;
    }
    previous = event.target;
});
document.addEventListener("novella:live", again);
document.body.addEventListener("htmx:afterSettle", () => (again(), search())); // another filter shows other rows
addEventListener("pageshow", again); // a page that the browser restores has its boxes ticked
