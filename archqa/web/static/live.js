"use strict";
/* What the pages do beyond reading: copying an answer, and hearing how a question fares. Without it they still read. */

function told(button, words) {
  const place = button.parentElement.querySelector("[role=status]");
  if (place) { place.textContent = words; }
}

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const text = source.value.trim();
  try {
    await navigator.clipboard.writeText(text);
    told(button, "Copied.");
  } catch {
    source.hidden = false;
    source.focus();
    source.select();
    told(button, "Press Ctrl+C to copy.");
  }
}

function show(list, stages) {
  list.replaceChildren(...stages.map((stage) => {
    const line = document.createElement("li");
    line.textContent = `✓ ${stage.agent}${stage.steps > 1 ? ` × ${stage.steps}` : ""}`;
    return line;
  }));
}

function follow(list) {
  const heard = new EventSource(list.dataset.events);
  heard.addEventListener("stages", (event) => show(list, JSON.parse(event.data)));
  heard.addEventListener("done", () => { heard.close(); location.reload(); });
}

document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => copy(button)));
document.querySelectorAll("[data-events]").forEach(follow);
document.querySelectorAll("form[data-once]").forEach((form) => form.addEventListener("submit", () => {
  form.querySelectorAll("button").forEach((button) => { button.setAttribute("aria-busy", "true"); });
}));
