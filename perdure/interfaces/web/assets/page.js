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

  // What is asked for again and again (a poll, a stream) and got no answer the last time. What the
  // page shows stays as it is; the notice says since when.
  const STORE_AWAY = "the store does not answer the server. No run fails by this, each goes on as soon as the store answers";
  const notice = document.getElementById("connection");
  const heard = new WeakMap();
  const broken = new Map();
  let loaded = new Date();
  const tellBroken = () => {
    for (const asker of broken.keys()) if (!asker.isConnected) broken.delete(asker);
    if (!notice) return;
    // One that says what is away says more than one that only got no answer.
    const whys = [...broken.values()];
    const why = whys.find((one) => one === STORE_AWAY) ?? whys[0];
    if (why) {
      const since = new Date(Math.min(...[...broken.keys()].map((one) => heard.get(one) ?? loaded)));
      const words = since.toLocaleTimeString();
      if (notice.children[0].textContent !== words) notice.children[0].textContent = words;
      if (notice.children[1].textContent !== why) notice.children[1].textContent = why;
    }
    notice.hidden = !why;
  };
  const asksAgain = (asker) =>
    asker.hasAttribute("hx-sse:connect") || /\bevery\b/.test(asker.getAttribute("hx-trigger") ?? "");
  const onBroken = (asker, status, away) => {
    const told = status ? `the server answers with error ${status}` : "the server does not answer";
    broken.set(asker, away === "store" ? STORE_AWAY : told);
    tellBroken();
  };
  const onHeard = (asker) => {
    heard.set(asker, new Date());
    broken.delete(asker);
    // What was asked for once is not asked for again; any answer shows that it can be.
    for (const one of broken.keys()) if (!asksAgain(one)) broken.delete(one);
    tellBroken();
  };
  // A stream that never began is not begun again by itself.
  const again = (asker) => {
    const stream = asker.hasAttribute("hx-sse:connect") && !asker._htmx?.sse;
    if (stream) setTimeout(() => asker.isConnected && htmx.trigger(asker, "again"), 3000);
  };
  document.addEventListener("htmx:error", (event) => {
    const asker = event.detail?.ctx?.sourceElement;
    if (asker) { onBroken(asker); again(asker); }
  });
  document.addEventListener("htmx:response:error", (event) => {
    const { sourceElement, response } = event.detail.ctx;
    onBroken(sourceElement, response.status, response.headers.get("perdure-away"));
    again(sourceElement);
  });
  document.addEventListener("htmx:after:request", (event) => {
    const { sourceElement, response } = event.detail.ctx;
    if (response.status < 400) onHeard(sourceElement);
  });
  document.addEventListener("htmx:sse:error", (event) => onBroken(event.target, event.detail.status));
  document.addEventListener("htmx:sse:after:connection", (event) => onHeard(event.target));
  document.addEventListener("htmx:sse:after:message", (event) => {
    if (event.detail.message.event !== "stale") onHeard(event.target);
  });
  document.addEventListener("stale", (event) => onBroken(event.target, 503), true);

  // What changes by itself is also said to those who do not see it: a new question, the end of a run.
  const news = document.getElementById("news");
  const say = (words) => { if (news) news.textContent = words.replace(/\s+/g, " ").trim(); };
  document.addEventListener("ended", () => {
    say(`This run has ended: ${document.querySelector(".sentence")?.textContent ?? ""}`);
  }, true);

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
  const notifyOf = (body, tag) => {
    let shown;
    try {
      shown = new Notification("Perdure asks", { body, tag });
    } catch {
      return; // leave was given elsewhere, and this browser has them for service workers alone
    }
    shown.onclick = () => { window.focus(); location.assign("/inbox"); };
  };
  const tell = () => {
    const found = inbox.querySelector("[data-open]");
    if (!found) return;
    const { open, newest: asked, words } = found.dataset;
    document.title = open === "0" ? title : `(${open}) ${title}`;
    if (asked === undefined) return;
    // A question that goes leaves an older one as the newest.
    const isNew = Number(asked) > newest;
    newest = Math.max(newest ?? 0, asked);
    if (isNew) say(`A new question. ${words}`);
    if (isNew && document.hidden && window.Notification?.permission === "granted") {
      notifyOf(words, asked);
    }
  };
  if (inbox) tell();
  if (inbox) new MutationObserver(tell).observe(inbox, { childList: true, subtree: true });

  // Where notifications are for service workers alone, as in Chrome on phones, making one fails.
  // Without leave, which is still to be asked for, none is shown.
  const canNotify = () => {
    if (!window.isSecureContext || window.Notification?.permission !== "default") return false;
    try {
      new Notification("").close();
      return true;
    } catch {
      return false;
    }
  };

  // Browsers ask for leave to notify only after a click.
  const notify = document.getElementById("notify");
  if (notify && canNotify()) {
    notify.hidden = false;
    notify.addEventListener("click", async () => {
      await Notification.requestPermission();
      notify.hidden = true;
    });
  }

  // A page that could not be shown while the store was away asks for itself until it can.
  if (document.querySelector("[data-away]")) {
    const ask = async () => {
      try {
        if ((await fetch("/inbox/count", { cache: "no-store" })).status < 500) return location.reload();
      } catch {
        // Not even the server answers.
      }
      setTimeout(ask, 3000);
    };
    setTimeout(ask, 3000);
  }
})();
