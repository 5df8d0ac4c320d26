/* A review worked through with the keyboard, and guarded against being left unsaved. Forms work without it. */

const form = document.querySelector("form[data-review]");
const dialog = document.getElementById("hotkeys");
const HOTKEYS_OFF = "archqa-hotkeys-off";
const LABELS = { e: "essential", s: "supplementary", n: "not-relevant" };
const NUMBERED = { line: ["supported", "partly", "not"], verdict: ["yes", "partly", "no"] };

let isSending = false;

/* What is not saved */

const checked = (choice) => choice.querySelector("input[type=radio]:checked");
const isChanged = (choice) => Boolean(checked(choice)) && checked(choice).value !== choice.dataset.saved;
const isRewritten = (area) => area.value.trim() !== area.dataset.saved.trim();

/* Choices and texts that differ from what is saved. A long note has thousands: only the touched one is looked at. */
const unsaved = new Set();

function note(element, differs) {
  if (differs) { unsaved.add(element); } else { unsaved.delete(element); }
  const count = unsaved.size;
  const words = count === 1 ? "1 change is not saved" : `${count} changes are not saved`;
  const place = form.querySelector("[data-unsaved]");
  if (place) { place.textContent = count ? words : ""; }
}

/* Clearing what was never saved leaves the choice as if it had never been touched. */
function forgetEmptyChoice(choice) {
  const input = checked(choice);
  if (input && input.value === "" && choice.dataset.saved === "") { input.checked = false; }
}

function onChange(event) {
  const choice = event.target.closest("fieldset.choice");
  if (!choice) { return; }
  forgetEmptyChoice(choice);
  note(choice, isChanged(choice));
}

function onInput(event) {
  if (event.target.matches("textarea[data-saved]")) { note(event.target, isRewritten(event.target)); }
}

/* The page of a conflict is unsaved as a whole. */
const isOfConflict = () => form.querySelector("fieldset.conflict") !== null;

function warnBeforeLeaving(event) {
  if (!isSending && (isOfConflict() || unsaved.size)) { event.preventDefault(); }
}

/* Hotkeys: the current row is the one that has the focus */

const rowsByKind = {};
const rows = (kind) => (rowsByKind[kind] ??= [...form.querySelectorAll(`[data-row=${kind}]`)]);
const focused = () => document.activeElement?.closest?.("[data-row]");

function focusRow(row) {
  const choice = row.querySelector("fieldset.choice");
  (checked(choice) || choice.querySelector("input[type=radio]")).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function step(kind, by) {
  const all = rows(kind);
  if (!all.length) { return; }
  const at = all.indexOf(focused());
  const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1);
  focusRow(all[next]);
}

function say(row, value) {
  const input = row.querySelector(`input[type=radio][value="${value}"]`);
  if (!input) { return; }
  input.checked = true;
  input.focus({ preventScroll: true });
  input.dispatchEvent(new Event("change", { bubbles: true }));
}

function label(value) {
  const row = focused();
  if (row?.dataset.row === "sentence") { say(row, value); }
}

function judge(number) {
  const row = focused();
  const values = NUMBERED[row?.dataset.row];
  if (values) { say(row, values[number]); }
}

function nextQuestion() {
  const all = rows("verdict");
  if (all.length) { focusRow(all[(all.indexOf(focused()) + 1) % all.length]); }
}

function follow(key) {
  document.querySelector(`a[data-key="${key}"]`)?.click();
}

const HOTKEYS = {
  j: () => step("sentence", 1), k: () => step("sentence", -1),
  l: () => step("line", 1), h: () => step("line", -1),
  1: () => judge(0), 2: () => judge(1), 3: () => judge(2),
  q: nextQuestion,
  c: () => { const row = focused(); if (row) { say(row, ""); } },
  "]": () => follow("]"), "[": () => follow("["),
  "?": () => dialog?.showModal(),
};
Object.entries(LABELS).forEach(([key, value]) => { HOTKEYS[key] = () => label(value); });

const isTyping = (target) => target.matches?.("textarea, select, input:not([type=radio], [type=checkbox])");
const areOff = () => localStorage.getItem(HOTKEYS_OFF) === "yes";

function onKey(event) {
  if (event.key === "Enter" && event.ctrlKey) {
    event.preventDefault();
    form.requestSubmit(form.querySelector("button[name=then]") ?? form.querySelector("button[type=submit]"));
    return;
  }
  const isPlain = !event.ctrlKey && !event.altKey && !event.metaKey;
  if (!isPlain || isTyping(event.target) || dialog?.open || areOff() || !(event.key in HOTKEYS)) { return; }
  event.preventDefault();
  HOTKEYS[event.key]();
}

function setUpHotkeys() {
  document.addEventListener("keydown", onKey);
  const opener = document.querySelector("[data-hotkeys-open]");
  opener.hidden = false;
  opener.addEventListener("click", () => dialog.showModal());
  const switched = dialog.querySelector("[data-hotkeys-on]");
  switched.checked = !areOff();
  switched.addEventListener("change", () => localStorage.setItem(HOTKEYS_OFF, switched.checked ? "no" : "yes"));
}

if (form) {
  form.addEventListener("change", onChange);
  form.addEventListener("input", onInput);
  form.addEventListener("submit", () => { isSending = true; });
  window.addEventListener("beforeunload", warnBeforeLeaving);
  window.addEventListener("pageshow", () => { isSending = false; });
  if (dialog) { setUpHotkeys(); }
}
