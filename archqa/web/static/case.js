"use strict";
/* A case beside its note: a citation and its sentence light up together, and the neighbours are those of the table as it was sorted and filtered. */

function light(elements, isLit) {
  elements.forEach((element) => element.classList.toggle("lit", isLit));
}

function linkOnHover(element, partners) {
  if (!partners.length) { return; }
  for (const name of ["mouseenter", "focusin"]) { element.addEventListener(name, () => light(partners, true)); }
  for (const name of ["mouseleave", "focusout"]) { element.addEventListener(name, () => light(partners, false)); }
}

function target(link) {
  return document.getElementById(decodeURIComponent(link.hash.slice(1)));
}

function linkCitations() {
  const citing = new Map();
  document.querySelectorAll("a.cite[href^='#']").forEach((link) => {
    const sentence = target(link);
    if (!sentence) { return; }
    linkOnHover(link, [sentence]);
    citing.set(sentence, [...(citing.get(sentence) ?? []), link]);
  });
  citing.forEach((links, sentence) => {
    const lines = links.map((link) => link.closest("li")).filter(Boolean);
    linkOnHover(sentence, [...links, ...lines]);
  });
  document.querySelectorAll("ol.answer > li").forEach((line) => {
    linkOnHover(line, [...line.querySelectorAll("a.cite[href^='#']")].map(target).filter(Boolean));
  });
}

function stored(name) {
  try { return sessionStorage.getItem(name); } catch { return null; }
}

function neighbour(nav, place, order, at, words) {
  const link = document.createElement("a");
  link.href = `${nav.dataset.order}${order[at]}${nav.dataset.query ?? ""}`;
  link.textContent = words;
  link.rel = place;
  nav.querySelector(place === "prev" ? "[data-earlier]" : "[data-later]").replaceChildren(link);
}

function end(nav, name, words) {
  const shown = document.createElement("span");
  shown.className = "soft";
  shown.textContent = words;
  nav.querySelector(name).replaceChildren(shown);
}

function followTable(nav) {
  const order = JSON.parse(stored(`order ${nav.dataset.order}${nav.dataset.query ?? ""}`) ?? "null");
  const at = order ? order.indexOf(Number(nav.dataset.index)) : -1;
  if (at < 0) { return; }
  if (at > 0) { neighbour(nav, "prev", order, at - 1, "← previous case"); } else { end(nav, "[data-earlier]", "← first case"); }
  if (at + 1 < order.length) { neighbour(nav, "next", order, at + 1, "next case →"); } else { end(nav, "[data-later]", "last case"); }
  nav.querySelector("[data-place]").textContent = `${at + 1} of ${order.length} in the table`;
}

document.querySelectorAll("nav[data-order]").forEach(followTable);
document.querySelectorAll("a[data-back]").forEach((link) => { link.href = link.dataset.back + (stored(`back ${link.dataset.back}`) ?? ""); });
linkCitations();
