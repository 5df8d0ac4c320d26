"use strict";
/* Shows the rows of a short table that have the words which are searched for. */

function filterRows(bar) {
  const input = bar.querySelector("input");
  const count = bar.querySelector("output");
  const rows = [...document.getElementById(bar.dataset.filterRows).tBodies[0].rows];
  function filter() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = shown === rows.length ? `${rows.length} ${rows.length === 1 ? "run" : "runs"}` : `${shown} of ${rows.length} runs`;
  }
  bar.hidden = false;
  input.addEventListener("input", filter);
  filter();
}

document.querySelectorAll("[data-filter-rows]").forEach(filterRows);
