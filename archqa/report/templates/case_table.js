"use strict";
/* Sorts, filters and searches a table of cases. Rows come from the table itself, or from setRows.
   The choice stands in the address after "#", so that going back restores it. */

const ROWS_AT_ONCE = 100;
const THIN_SPACE = "\u202f";

function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, THIN_SPACE);
}

function duration(seconds) {
  if (seconds < 1) { return `${(seconds * 1000).toFixed(0)} ms`; }
  if (seconds < 60) { return `${seconds.toFixed(1)} s`; }
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) { return `${minutes} min ${whole % 60} s`; }
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function cost(dollars) {
  return dollars === 0 || dollars >= 1 ? `$${dollars.toFixed(2)}` : `$${dollars.toFixed(4)}`;
}

const WRITTEN = {
  score: (value, decimals) => value.toFixed(decimals),
  signed: (value, decimals) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(decimals)}`,
  share: (value) => value.toFixed(2),
  count: grouped,
  cost,
  seconds: duration,
  names: (value) => value.join(", ") || "–",
  text: String,
  status: String,
};

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) { made.className = className; }
  if (text !== undefined) { made.textContent = text; }
  return made;
}

function compared(first, second) {
  if (typeof first === "number" && typeof second === "number") { return first - second; }
  return String(first).localeCompare(String(second));
}

class CaseTable {
  constructor(root) {
    this.root = root;
    this.form = root.querySelector("form.filters");
    this.body = root.querySelector("tbody");
    this.more = root.querySelector("[data-more]");
    this.count = root.querySelector("[data-count]");
    this.decimals = Number(root.dataset.decimals);
    this.columns = [...root.querySelectorAll("thead th")].map((heading) => ({ heading, ...heading.dataset }));
    this.sorting = { key: "", descending: false };
    this.rows = [];
    this.shown = [];
    this.addSortButtons();
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", () => this.choose());
    this.form.addEventListener("reset", () => setTimeout(() => this.clear()));
    this.more.addEventListener("click", () => this.extend());
    new IntersectionObserver((seen) => { if (seen[0].isIntersecting) { this.extend(); } }, { rootMargin: "600px" }).observe(this.more);
    addEventListener("hashchange", () => this.readAddress());
  }

  addSortButtons() {
    for (const column of this.columns) {
      const button = element("button", "sort", column.heading.textContent);
      button.type = "button";
      button.addEventListener("click", () => this.sortBy(column.key));
      column.heading.replaceChildren(button);
    }
  }

  /* Rows that stand in the page already: their texts are those of the cells. */
  takeRowsOfPage() {
    this.setRows([...this.body.rows].map((row) => ({
      ...JSON.parse(row.dataset.row), element: row, search: row.textContent.toLowerCase(),
      question: row.cells[0].textContent.trim(),
    })));
  }

  setRows(rows) {
    this.rows = rows;
    for (const row of rows) {
      row.search ??= [row.question, row.id, row.specialty, row.error].join(" ").toLowerCase();
    }
    this.form.hidden = false;
    this.readAddress(true);
  }

  controls() {
    return [...this.form.querySelectorAll("input, select")];
  }

  nameOf(control) {
    const { filter, from, to } = control.dataset;
    return filter ?? (from ? `${from}-from` : to ? `${to}-to` : "q");
  }

  readAddress(always = false) {
    const hash = location.hash.slice(1);
    if (hash.includes("=")) {
      const choice = new URLSearchParams(hash);
      for (const control of this.controls()) { control.value = choice.get(this.nameOf(control)) ?? ""; }
      const sort = choice.get("sort") ?? "";
      this.sorting = { key: sort.replace(/^-/, ""), descending: sort.startsWith("-") };
    } else if (!always) {
      return;
    }
    this.update();
  }

  writeAddress() {
    const choice = new URLSearchParams();
    for (const control of this.controls()) {
      if (control.value) { choice.set(this.nameOf(control), control.value); }
    }
    if (this.sorting.key) { choice.set("sort", (this.sorting.descending ? "-" : "") + this.sorting.key); }
    const hash = String(choice);
    history.replaceState(history.state, "", hash ? `#${hash}` : location.pathname + location.search);
  }

  choose() {
    this.update();
    this.writeAddress();
  }

  clear() {
    this.sorting = { key: "", descending: false };
    this.choose();
  }

  sortBy(key) {
    const again = this.sorting.key === key;
    if (again && this.sorting.descending) {
      this.sorting = { key: "", descending: false };
    } else {
      this.sorting = { key, descending: again };
    }
    this.choose();
  }

  conditions() {
    const conditions = [];
    for (const control of this.controls()) {
      const { filter, from, to } = control.dataset;
      const value = control.value.trim();
      if (!value) { continue; }
      if (from) {
        conditions.push((row) => (row[from] ?? -Infinity) >= Number(value));
      } else if (to) {
        conditions.push((row) => (row[to] ?? Infinity) <= Number(value));
      } else if (filter) {
        conditions.push((row) => (Array.isArray(row[filter]) ? row[filter].includes(value) : row[filter] === value));
      } else {
        const words = value.toLowerCase().split(/\s+/);
        conditions.push((row) => words.every((word) => row.search.includes(word)));
      }
    }
    return conditions;
  }

  update() {
    const began = performance.now();
    const conditions = this.conditions();
    this.shown = this.rows.filter((row) => conditions.every((holds) => holds(row)));
    this.sort();
    this.body.replaceChildren();
    this.placed = 0;
    this.extend();
    const all = this.rows.length;
    const cases = `${grouped(all)} ${all === 1 ? "case" : "cases"}`;
    this.count.textContent = this.shown.length === all ? cases : `${grouped(this.shown.length)} of ${cases}`;
    this.root.dataset.milliseconds = (performance.now() - began).toFixed(1);
    this.root.dispatchEvent(new CustomEvent("shown"));
  }

  sort() {
    const { key, descending } = this.sorting;
    for (const column of this.columns) {
      if (column.key !== key) { column.heading.removeAttribute("aria-sort"); } else {
        column.heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      }
    }
    if (!key) { return; }
    const isEmpty = (row) => row[key] === undefined || row[key] === null || row[key] === "";
    this.shown.sort((first, second) => {
      if (isEmpty(first) || isEmpty(second)) { return isEmpty(first) - isEmpty(second); }
      return (descending ? -1 : 1) * compared(first[key], second[key]);
    });
  }

  extend(count = ROWS_AT_ONCE) {
    const next = this.shown.slice(this.placed, this.placed + count);
    const added = document.createDocumentFragment();
    for (const row of next) { added.append(row.element ??= this.build(row)); }
    this.body.append(added);
    this.placed += next.length;
    const left = this.shown.length - this.placed;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show more (${grouped(left)} left)`;
  }

  build(row) {
    const made = element("tr");
    for (const { key, kind } of this.columns) { made.append(this.cell(row, key, kind)); }
    return made;
  }

  cell(row, key, kind) {
    if (kind === "question") { return this.questionCell(row); }
    const value = row[key];
    if (kind === "status") {
      const cell = element("td", "k-status");
      cell.append(element("span", `status ${value.replace(" ", "-")}`, value));
      return cell;
    }
    const isText = kind === "text" || kind === "names";
    const text = value === null || value === undefined ? "–" : WRITTEN[kind](value, this.decimals);
    const cell = element("td", `k-${key}${isText ? "" : " num"}`, text);
    if (key === "reviewed_by" && row.disagreement) { cell.append(" ", element("span", "missed", "≠ differ")); }
    return cell;
  }

  questionCell(row) {
    const cell = element("th", "k-question");
    cell.scope = "row";
    const link = element("a");
    link.href = this.root.dataset.caseUrl + row.index + (this.root.dataset.caseQuery ?? "");
    const text = element("bdi", "", row.question || row.id);
    text.dir = "auto";
    link.append(text);
    cell.append(link);
    if (row.question) { cell.append(" ", element("span", "mono soft", row.id.length > 28 ? `${row.id.slice(0, 27)}…` : row.id)); }
    if (row.error) { cell.append(" ", element("span", "small wrong", row.error)); }
    return cell;
  }
}

document.querySelectorAll("[data-case-table]").forEach((root) => {
  root.caseTable = new CaseTable(root);
  if (!root.dataset.rowsUrl) { root.caseTable.takeRowsOfPage(); }
});
