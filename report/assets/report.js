"use strict";
(() => {
  const form = document.querySelector(".filter");
  const rows = [...document.querySelectorAll(".row")];
  const output = form.querySelector("output");
  const nothing = document.querySelector(".nothing");
  const field = (name) => form.elements.namedItem(name);
  const checked = (name) => new Set([...form.querySelectorAll(`input[name=${name}]:checked`)].map((box) => box.value));
  form.hidden = false;

  function apply(remember) {
    const words = field("text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const results = checked("result");
    const summaries = field("summaries").checked;
    let shown = 0;
    for (const row of rows) {
      const data = row.dataset;
      const visible = (summaries || !data.summary) &&
        (results.size === 0 || results.has(data.result)) &&
        ["level", "document", "family"].every((name) => !field(name).value || field(name).value === data[name]) &&
        words.every((word) => data.text.includes(word));
      row.hidden = !visible;
      shown += visible;
    }
    output.textContent = `${shown} of ${rows.length} rows`;
    nothing.hidden = shown > 0;
    if (!remember) return;
    const state = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...state]) if (!value) state.delete(name);
    history.replaceState(null, "", state.size ? `#${state}` : location.pathname + location.search);
  }

  // The filter is part of the address, so that a view can be handed on.
  function restore() {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const name of ["text", "level", "document", "family"]) if (state.has(name)) field(name).value = state.get(name);
    for (const box of form.querySelectorAll("input[name=result]")) box.checked = state.getAll("result").includes(box.value);
    field("summaries").checked = state.has("summaries");
  }

  form.addEventListener("input", () => apply(true));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => apply(true)));
  for (const button of document.querySelectorAll(".matrix button")) {
    button.addEventListener("click", () => {
      form.reset();
      for (const name of ["document", "family"]) if (button.dataset[name]) field(name).value = button.dataset[name];
      for (const box of form.querySelectorAll("input[name=result]")) box.checked = box.value === button.dataset.result;
      setTimeout(() => { apply(true); document.getElementById("rows").focus(); });
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    field("text").focus();
  });
  for (const button of document.querySelectorAll(".copy")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "copied";
    });
  }
  addEventListener("beforeprint", () => { for (const row of rows) if (!row.hidden && row.querySelector(".failure")) row.open = true; });
  if (location.hash.includes("=")) restore();
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
  apply(false);
})();
