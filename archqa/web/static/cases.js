"use strict";
/* Fills the table of cases of a page from its address, and refreshes what grows. */

const SECONDS_BETWEEN = 4;
const SECONDS_WHILE_SCORED = 1;

class LiveCases {
  constructor(root) {
    this.root = root;
    this.table = root.caseTable;
    this.state = document.querySelector("[data-state]");
    this.bar = document.querySelector("[data-refreshing]");
    this.pauseButton = document.querySelector("[data-pause]");
    this.paused = false;
    this.growing = "growing" in root.dataset;
    this.version = "";
    root.addEventListener("shown", () => this.keepOrder());
    root.querySelector("[data-pages]")?.remove();
    this.pauseButton?.addEventListener("click", () => this.pause(!this.paused));
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { this.again(0); } });
    addEventListener("pagehide", () => this.keepPlace());
    this.load();
  }

  async load() {
    clearTimeout(this.timer);
    try {
      const address = new URL(this.root.dataset.rowsUrl, location.href);
      if (this.version) { address.searchParams.set("known", this.version); }
      const response = await fetch(address);
      if (!response.ok) { throw new Error(response.status); }
      this.take(await response.json());
    } catch {
      this.tell("The server does not answer; what stands here may be old.");
    }
    this.again(this.seconds ?? SECONDS_BETWEEN);
  }

  take(content) {
    const isFirst = !this.loaded;
    this.loaded = true;
    if (content.rows) {
      if (content.columns && this.lacksColumns(content.columns)) { location.reload(); return; }
      const placed = this.table.placed ?? 0;
      this.table.setRows(content.rows);
      if (placed > this.table.placed) { this.table.extend(placed - this.table.placed); }
    }
    if (content.state && this.state && !isFirst) { this.state.innerHTML = content.state; }
    this.version = content.version ?? "";
    this.growing = content.growing;
    this.seconds = content.refreshed && this.isBeingScored() ? SECONDS_WHILE_SCORED : SECONDS_BETWEEN;
    if (content.refreshed) { this.showTime(content.refreshed); }
    if (this.bar) { this.bar.hidden = !this.growing; }
    if (this.pauseButton) { this.pauseButton.hidden = !this.growing; }
    if (isFirst) { this.restorePlace(); }
  }

  /* The first scores bring a column that the page does not have yet. */
  lacksColumns(keys) {
    const own = new Set(this.table.columns.map((column) => column.key));
    return keys.some((key) => !own.has(key));
  }

  isBeingScored() {
    return Boolean(this.state?.querySelector("[data-pending]"));
  }

  showTime(time) {
    const place = this.state?.querySelector("[data-refreshed]");
    if (place) { place.textContent = time; }
  }

  again(seconds) {
    clearTimeout(this.timer);
    if (!this.growing || this.paused || document.hidden) { return; }
    this.timer = setTimeout(() => this.load(), seconds * 1000);
  }

  pause(paused) {
    this.paused = paused;
    this.pauseButton.setAttribute("aria-pressed", String(paused));
    this.tell(paused ? "Refreshing is paused." : "");
    this.again(0);
  }

  tell(words) {
    const place = document.querySelector("[data-refresh-status]");
    if (place) { place.textContent = words; }
  }

  /* The page of a case goes to the next one in the order of this table, and back to it. */
  keepOrder() {
    const indices = this.table.shown.map((row) => row.index);
    this.keep(`order ${this.root.dataset.caseUrl}${this.root.dataset.caseQuery ?? ""}`, JSON.stringify(indices));
    this.keep(`back ${location.pathname}${this.root.dataset.caseQuery ?? ""}`, location.hash);
  }

  keepPlace() {
    this.keepOrder();
    this.keep(`place ${location.pathname}`, JSON.stringify({ y: scrollY, placed: this.table.placed }));
  }

  restorePlace() {
    const [entry] = performance.getEntriesByType("navigation");
    if (entry?.type !== "back_forward") { return; }
    try {
      const place = JSON.parse(sessionStorage.getItem(`place ${location.pathname}`));
      if (place.placed > this.table.placed) { this.table.extend(place.placed - this.table.placed); }
      scrollTo(0, place.y);
    } catch { /* Nothing was kept. */ }
  }

  keep(name, value) {
    try { sessionStorage.setItem(name, value); } catch { /* The browser keeps nothing. */ }
  }
}

document.querySelectorAll("[data-rows-url]").forEach((root) => { root.live = new LiveCases(root); });
