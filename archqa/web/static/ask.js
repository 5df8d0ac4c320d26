"use strict";
/* The pages of questions: the fields of what is asked about, and how a question in progress fares. Without it all
   fields are shown, and the page of a question in progress loads itself again. */

function showFields(form) {
  const chosen = form.querySelector("input[name=about]:checked");
  if (!chosen) { return; }
  form.querySelectorAll("[data-about]").forEach((part) => {
    const asked = part.dataset.about.split(" ").includes(chosen.value);
    part.hidden = !asked && !part.querySelector("[aria-invalid]");
    part.querySelectorAll("input, textarea").forEach((field) => { field.disabled = part.hidden; });
  });
}

function elapsed(seconds) {
  const whole = Math.floor(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

function countUp(place) {
  const start = performance.now() - 1000 * Number(place.dataset.elapsed);
  setInterval(() => { place.textContent = elapsed((performance.now() - start) / 1000); }, 250);
}

function showStages(list, stages) {
  list.replaceChildren(...stages.map((stage) => {
    const line = document.createElement("li");
    line.textContent = `✓ ${stage.agent}${stage.steps > 1 ? ` × ${stage.steps}` : ""}`;
    return line;
  }));
}

function showWaiting(place, before) {
  const inLine = before ? `Waiting in line: number ${before + 1}.` : "Waiting for others to be answered: it is the next.";
  place.textContent = before === null ? "" : inLine;
}

function follow(part) {
  const heard = new EventSource(part.dataset.events);
  heard.addEventListener("waiting", (event) => {
    showWaiting(part.querySelector("[data-waiting]"), JSON.parse(event.data).before);
  });
  heard.addEventListener("stages", (event) => showStages(part.querySelector("[data-stages]"), JSON.parse(event.data)));
  heard.addEventListener("done", () => { heard.close(); location.reload(); });
}

document.querySelectorAll("form[data-ask]").forEach((form) => {
  showFields(form);
  form.addEventListener("change", () => showFields(form));
});
document.querySelectorAll("[data-elapsed]").forEach(countUp);
document.querySelectorAll("[data-events]").forEach(follow);
