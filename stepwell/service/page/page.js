// Takes the sections again every two seconds, while the page is seen. All of them are made by the service.
"use strict";

const SECONDS = 2;
const shown = {};
let failures = 0;

function scrollers(part) {
  return [...part.querySelectorAll(".scroll")];
}

function replace(part, html) {
  const places = scrollers(part).map((each) => [each.scrollLeft, each.scrollTop]);
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const href = focused && focused.getAttribute("href");
  const at = focused ? scrollers(part).indexOf(focused) : -1;
  part.innerHTML = html;
  scrollers(part).forEach((each, index) => {
    if (places[index]) [each.scrollLeft, each.scrollTop] = places[index];
  });
  if (!focused) return;
  const again = at >= 0 ? scrollers(part)[at] : [...part.querySelectorAll("a")].find((each) => each.getAttribute("href") === href);
  if (again) again.focus({ preventScroll: true });
}

function selecting(part) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
}

function say(text, bad) {
  const when = document.getElementById("when");
  when.textContent = text;
  when.className = bad ? "bad" : "";
}

async function look() {
  if (document.visibilityState === "visible") {
    try {
      const answer = await fetch("/page/data", { credentials: "same-origin", cache: "no-store" });
      if (answer.status === 401) {
        location.reload();
        return;
      }
      const { sections } = await answer.json();
      for (const [name, html] of Object.entries(sections)) {
        const part = document.getElementById("part-" + name);
        if (part && shown[name] !== html && !selecting(part)) {
          replace(part, html);
          shown[name] = html;
        }
      }
      failures = 0;
      say("as of " + new Date().toLocaleTimeString(), false);
    } catch (fault) {
      failures += 1;
      if (failures > 1) say("the service does not answer; what is below is old", true);
    }
  }
  setTimeout(look, SECONDS * 1000);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest("svg a");
  if (!link) return;
  const row = document.getElementById(link.getAttribute("href").slice(1));
  if (row) {
    event.preventDefault();
    row.scrollIntoView({ block: "center" });
    row.focus({ preventScroll: true });
  }
});

setTimeout(look, SECONDS * 1000);
