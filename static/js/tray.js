// The tray of actions on many: dismissed in place, and folded as the person left it.
const tray = document.getElementById("tray");

document.body.addEventListener("htmx:afterRequest", (event) => {
    const form = event.detail.elt;
    if (!event.detail.successful || !form.matches("[data-tray-dismiss]")) return;
    form.closest(".tray-row").remove();
    tray.hidden = !document.querySelector("#tray .tray-row");
    document.getElementById("main").focus({ preventScroll: true }); // the button is gone
});
