/* The tools of a trace: a filter, and opening or closing all of its parts. Without them the tree still reads. */

const tools = document.querySelector("[data-trace-tools]");
const tree = document.querySelector("[data-trace]");

/* The smallest parts that the filter shows or hides: one attempt, else one call, else one stage. */
const parts = [...tree?.querySelectorAll("li") ?? []]
  .filter((item) => !item.querySelector(":scope li"))
  .map((item) => ({ item, words: item.textContent.toLowerCase() }));

function ownWords(item) {
  return [...item.querySelectorAll(":scope > details > summary, :scope > p, :scope > details > p")]
    .map((part) => part.textContent.toLowerCase()).join(" ");
}

function isShown(part, wanted) {
  let words = part.words;
  for (let above = part.item.parentElement.closest("li"); above; above = above.parentElement.closest("li")) {
    words += ` ${ownWords(above)}`;
  }
  return wanted.every((word) => words.includes(word));
}

function openTo(item) {
  for (let part = item; part && part !== tree; part = part.parentElement) {
    if (part.localName === "details") { part.open = true; }
  }
}

function openMatches(item, words) {
  for (const leaf of item.querySelectorAll("details.t-leaf")) {
    const text = leaf.textContent.toLowerCase();
    leaf.open = words.some((word) => text.includes(word));
  }
}

function apply() {
  const typed = tools.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rejectedOnly = tools.querySelector("[data-rejected]").getAttribute("aria-pressed") === "true";
  let shown = 0;
  for (const part of parts) {
    const fits = isShown(part, typed) && (!rejectedOnly || part.item.querySelector(".wrong") !== null);
    part.item.hidden = !fits;
    if (fits) {
      shown += 1;
      if (typed.length) { openTo(part.item); openMatches(part.item, typed); }
    }
  }
  for (const item of [...tree.querySelectorAll("li")].reverse()) {
    const inner = [...item.querySelectorAll(":scope li")];
    if (inner.length) { item.hidden = inner.every((each) => each.hidden); }
  }
  const filtered = typed.length > 0 || rejectedOnly;
  tools.querySelector("[role=status]").textContent = filtered ? `${shown} of ${parts.length} parts` : "";
}

if (tools && tree) {
  let waiting = 0;
  tools.hidden = false;
  tools.querySelector("input").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 120);
  });
  tools.querySelector("[data-rejected]").addEventListener("click", (event) => {
    const button = event.currentTarget;
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    apply();
  });
  for (const button of tools.querySelectorAll("[data-open]")) {
    button.addEventListener("click", () => {
      for (const part of tree.querySelectorAll("details")) { part.open = button.dataset.open === "true"; }
    });
  }
}
