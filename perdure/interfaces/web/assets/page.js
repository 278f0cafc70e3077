// What the page adds to htmx: the ticket of `perdure open`, and word of a broken connection.
(() => {
  "use strict";

  // A ticket comes in the fragment, which no server and no referrer ever sees.
  const form = document.getElementById("ticket");
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (form && ticket) {
    history.replaceState(null, "", location.pathname + location.search);
    form.elements.ticket.value = ticket;
    form.submit();
  }

  const notice = document.getElementById("connection");
  const broken = (is) => { if (notice) notice.hidden = !is; };
  document.addEventListener("htmx:sse:error", () => broken(true));
  document.addEventListener("htmx:sse:after:connection", () => broken(false));

  // Text of the model call in flight goes in as text, never as markup.
  document.addEventListener("text", (event) => {
    const shown = document.getElementById("live-text");
    if (shown && event.detail?.data) {
      shown.textContent = JSON.parse(event.detail.data).text ?? "";
      shown.hidden = !shown.textContent;
    }
  }, true);

  // How many questions wait: in the title of the tab, and as a notification of a new one.
  const inbox = document.getElementById("open-gates");
  const title = document.title;
  let newest;
  const tell = () => {
    const found = inbox.querySelector("[data-open]");
    if (!found) return;
    const { open, newest: last, words } = found.dataset;
    document.title = open === "0" ? title : `(${open}) ${title}`;
    const isNew = newest !== undefined && last && last !== newest;
    newest = last ?? "";
    if (isNew && document.hidden && window.Notification?.permission === "granted") {
      const shown = new Notification("Perdure asks", { body: words, tag: last });
      shown.onclick = () => { window.focus(); location.assign("/inbox"); };
    }
  };
  if (inbox) new MutationObserver(tell).observe(inbox, { childList: true, subtree: true });

  // Browsers ask for leave to notify only after a click.
  const notify = document.getElementById("notify");
  if (notify && window.Notification?.permission === "default") {
    notify.hidden = false;
    notify.addEventListener("click", async () => {
      await Notification.requestPermission();
      notify.hidden = true;
    });
  }

  // One question before what cannot be undone.
  document.addEventListener("submit", (event) => {
    const asked = event.submitter?.dataset.confirm;
    if (asked && !confirm(asked)) event.preventDefault();
  }, true);
})();
