// Opens the side bar of the operators' pages before what stands beside it is drawn, so that nothing moves.  Loaded
// behind the bar without defer; Django's nav_sidebar.js keeps the choice.
(() => {
    let choice = null;
    try {
        choice = localStorage.getItem("django.admin.navSidebarIsOpen");
    } catch {
        // storage is switched off: it is open
    }
    document.getElementById("main").classList.toggle("shifted", choice !== "false");
})();
