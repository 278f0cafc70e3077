// Forms: words are not lost, nothing is sent twice, and no tap hits what it was not meant for.
(() => {
  "use strict";

  // Words that were typed and not sent stay in this tab, for who typed them: a question may be
  // answered by somebody else, a run may end, and a session too, while somebody writes.
  const WORDS = "perdure-words";
  const who = document.body.dataset.who;
  const words = () => {
    try {
      const found = JSON.parse(sessionStorage.getItem(WORDS));
      return found && (!who || found.who === who) ? found : { who, forms: {} };
    } catch {
      return { who, forms: {} };
    }
  };
  const keep = (found) => {
    try { sessionStorage.setItem(WORDS, JSON.stringify(found)); } catch { /* without storage nothing is kept */ }
  };
  const written = (form) => [...form.elements].filter((one) =>
    one.matches("textarea, input:not([type=hidden], [type=checkbox], [type=radio], [type=file])"));
  const pathOf = (form) => new URL(form.getAttribute("action"), location.href).pathname;
  const keepForm = (form, sent) => {
    const found = words();
    const fields = Object.fromEntries(written(form).filter((one) => one.value.trim()).map((one) => [one.name, one.value]));
    if (Object.keys(fields).length) {
      found.forms[pathOf(form)] = { about: form.dataset.keep, at: location.pathname, sent, fields };
    } else {
      delete found.forms[pathOf(form)];
    }
    keep(found);
  };
  const box = document.getElementById("kept");
  // Words go back into their form. Where that is gone, they are shown.
  const showKept = () => {
    const found = words();
    const lost = [];
    for (const [path, one] of Object.entries(found.forms)) {
      const form = [...document.querySelectorAll("form[data-keep]")].find((form) => pathOf(form) === path);
      if (!form) {
        if (one.at === location.pathname && !one.sent) lost.push([path, one]);
        continue;
      }
      for (const field of written(form)) {
        if (Object.hasOwn(one.fields, field.name) && !field.value) {
          field.value = one.fields[field.name];
          field.closest("details")?.setAttribute("open", "");
        }
      }
    }
    const shown = JSON.stringify(lost);
    if (!box || box.dataset.shown === shown) return;
    box.dataset.shown = shown;
    box.hidden = !lost.length;
    box.replaceChildren(...lost.map(([path, one]) => {
      const part = document.createElement("section");
      const told = document.createElement("p");
      told.textContent = `These words were not sent, and what they were for is no longer on this page. ${one.about}:`;
      const text = document.createElement("pre");
      text.className = "source";
      text.textContent = Object.values(one.fields).join("\n");
      const away = document.createElement("button");
      away.type = "button";
      away.textContent = "Throw them away";
      away.addEventListener("click", () => {
        const now = words();
        delete now.forms[path];
        keep(now);
        showKept();
        document.getElementById("content").focus();
      });
      part.append(told, text, away);
      return part;
    }));
  };
  const unsent = () => {
    const found = words();
    const back = performance.getEntriesByType("navigation")[0]?.type === "back_forward";
    const taken = who && !back && !document.body.hasAttribute("data-refused");
    for (const [path, one] of Object.entries(found.forms)) {
      if (one.sent && taken) delete found.forms[path];
      else if (document.body.hasAttribute("data-refused") || back) one.sent = false;
    }
    keep(found);
    if (who) showKept();
  };
  unsent();
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (form?.matches("[data-keep]")) keepForm(form, false);
  });
  document.addEventListener("htmx:after:swap", () => { if (who) showKept(); });
  document.addEventListener("htmx:sse:after:message", () => { if (who) showKept(); });

  // A form is sent once, however often its button is pressed.
  const AGAIN_MS = 10_000;
  let sending = new WeakMap();
  window.addEventListener("pageshow", () => { sending = new WeakMap(); });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const asked = event.submitter?.dataset.confirm;
    const twice = form.method === "post" && performance.now() - (sending.get(form) ?? -AGAIN_MS) < AGAIN_MS;
    // One question before what cannot be undone.
    if (twice || (asked && !confirm(asked))) {
      event.preventDefault();
      return;
    }
    if (form.method === "post") sending.set(form, performance.now());
    if (form.matches("[data-keep]")) keepForm(form, true);
    if (form.matches(".who")) sessionStorage.removeItem(WORDS);
  }, true);

  // Where a question has just gone, another one stands under the finger: a tap that comes too soon
  // after it was meant for the first.
  const TOO_SOON_MS = 700;
  const STIRRED_PX = 8;
  const stirred = new WeakMap();
  const answered = /[?&](had|answered)=/.test(location.search) ? performance.now() : -TOO_SOON_MS;
  let places = new Map();
  const asking = () => document.querySelectorAll(".gate, .alike");
  const notePlaces = () => { places = new Map([...asking()].map((one) => [one, one.getBoundingClientRect().top])); };
  const compare = () => {
    for (const one of asking()) {
      const before = places.get(one);
      if (before === undefined || Math.abs(one.getBoundingClientRect().top - before) > STIRRED_PX) {
        stirred.set(one, performance.now());
      }
    }
  };
  document.addEventListener("htmx:before:swap", notePlaces);
  document.addEventListener("htmx:after:swap", compare);
  document.addEventListener("htmx:sse:before:message", notePlaces);
  document.addEventListener("htmx:sse:after:message", compare);
  document.addEventListener("click", (event) => {
    const asks = event.target.closest?.(".gate, .alike");
    // The keyboard acts on what has the focus, wherever that stands.
    if (!asks || !event.detail || !event.target.closest("button, input[type=checkbox]")) return;
    if (performance.now() - Math.max(answered, stirred.get(asks) ?? -TOO_SOON_MS) < TOO_SOON_MS) {
      event.preventDefault();
      event.stopPropagation();
      document.getElementById("news").textContent =
        "The questions have just moved, and nothing was sent. Look again, then answer.";
    }
  }, true);
})();
