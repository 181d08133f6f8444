// The note beside what is pointed at: lines of a name and a value, in the page's one `#tip`.

function showTip(near, lines) {
  const tip = byId("tip");
  tip.replaceChildren(
    ...lines.map(([name, value]) => node("div", {}, node("span", { class: "tip-name" }, name), node("bdi", {}, value))),
  );
  tip.hidden = false;
  placeBeside(tip, near);
}

/** Above what it is about, or below where there is no room, and within the window. */
function placeBeside(tip, near) {
  const [box, size] = [near.getBoundingClientRect(), tip.getBoundingClientRect()];
  const room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(8, Math.min(room - size.width - 8, box.left + box.width / 2 - size.width / 2))}px`;
  tip.style.top = `${box.top - size.height - 8 > 0 ? box.top - size.height - 8 : box.bottom + 8}px`;
}

const hideTip = () => {
  byId("tip").hidden = true;
};
