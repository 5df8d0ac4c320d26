"use strict";
/* What the pages do beyond reading: copying an answer, and showing that a form was sent. Without it they still read. */

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

document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => copy(button)));
document.querySelectorAll("form[data-once]").forEach((form) => form.addEventListener("submit", () => {
  form.querySelectorAll("button").forEach((button) => { button.setAttribute("aria-busy", "true"); });
}));
