// Text that does not fit its own box, boxes of text that lie over each other, a page wider than its
// window. What may scroll or is shortened on purpose (an ellipsis, a clamp) is not clipped.
() => {
  const found = [];
  const start = (element) => element.textContent.trim().slice(0, 50);
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} px wide`);

  const onPurpose = (style) =>
    ["auto", "scroll"].includes(style.overflowX) || style.textOverflow === "ellipsis" ||
    style.webkitLineClamp !== "none" || style.clipPath !== "none";
  for (const element of document.querySelectorAll("#app *")) {
    if (element.closest("svg, select, textarea") || !element.clientWidth) continue;
    const style = getComputedStyle(element);
    if (onPurpose(style)) continue;
    const hides = style.overflowX !== "visible" || element.matches("button, .button, .tag");
    if (hides && element.scrollWidth > element.clientWidth + 1) {
      found.push(`clipped: ${element.className || element.tagName} ${start(element)}`);
    }
  }

  const bars = "header, .row, .title, .meta, .legend, .pager, .facts, .fields";
  for (const bar of document.querySelectorAll(bars)) {
    const boxes = [...bar.children]
      .map((each) => ({ each, box: each.getBoundingClientRect() }))
      .filter(({ each, box }) => box.width && box.height && getComputedStyle(each).position === "static");
    for (const [index, { each, box }] of boxes.entries()) {
      for (const other of boxes.slice(index + 1)) {
        const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        if (across > 1 && down > 1) found.push(`overlap: ${start(each)} | ${start(other.each)}`);
      }
    }
  }
  return found.slice(0, 5);
}
