// Gives every element of a document an id, and tells what there is to click and where the focus is.
// Runs in a world of its own, which the page's scripts cannot see or disturb. It is installed once per document.
(() => {
  const CLICKED_TAGS = new Set(
    ["input", "textarea", "select", "button", "a", "iframe", "video", "li", "td", "option"]);
  const BUTTONS = 'button, a, input[type="button"], div[role="button"]';
  const SMALLEST_AREA = 20;
  let numbered = 0;
  let frames = 0;
  let described = [];

  // a … z, then aA, aB, …: only a frame's first letter is small, so that ids of nested frames can be told apart.
  function letters(count) {
    let text = "";
    for (let rest = count; ; ) {
      text = String.fromCharCode(97 + (rest % 26)) + text;
      if (rest < 26) break;
      rest = Math.floor(rest / 26) - 1;
    }
    return text[0] + text.slice(1).toUpperCase();
  }

  // All elements in document order; those of an open shadow root come right after its host.
  function* elements(root) {
    for (const element of root.querySelectorAll("*")) {
      yield element;
      if (element.shadowRoot) yield* elements(element.shadowRoot);
    }
  }

  function newId(element, prefix) {
    const tag = element.localName;
    return prefix + (tag === "iframe" || tag === "frame" ? letters(frames++) : numbered++);
  }

  function topmost(x, y) {
    let found = null;
    for (let root = document; root; ) {
      const inner = root.elementFromPoint(x, y);
      if (!inner || inner === found) break;
      found = inner;
      root = inner.shadowRoot;
    }
    return found;
  }

  // Whether a click at the centre of an element reaches it.
  function takesClicks(element, box) {
    const found = topmost((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    return found !== null && element.contains(found);
  }

  function looksClickable(element) {
    return CLICKED_TAGS.has(element.localName) || element.hasAttribute("onclick") ||
      getComputedStyle(element).cursor === "pointer";
  }

  // What a set of marks shows: the innermost things to click, a button as a whole.
  class Marks {
    marked = new Set();
    buttons = [];

    look(element) {
      const box = element.getBoundingClientRect();
      if (box.width * box.height < SMALLEST_AREA || box.bottom < 0 || box.right < 0 ||
          box.top > innerHeight || box.left > innerWidth) return;
      if (!looksClickable(element) || !takesClicks(element, box)) return;
      if (this.buttons.some((button) => button.contains(element))) return;
      let parent = element.parentElement;
      if (parent && parent.localName === "span" && parent.children.length === 1 &&
          parent.getAttribute("role") && this.marked.has(parent)) return;
      this.marked.add(element);
      if (element.matches(BUTTONS)) this.buttons.push(element);
      for (; parent; parent = parent.parentElement) this.marked.delete(parent);
    }

    boxes() {
      return Array.from(this.marked, (element) => {
        const box = element.getBoundingClientRect();
        return [element.getAttribute("bid"), box.x, box.y, box.width, box.height];
      });
    }
  }

  function focused() {
    let element = document.activeElement;
    while (element && element.shadowRoot) element = element.shadowRoot.activeElement;
    if (!element) return ["", false];
    const tag = element.localName;
    return [element.getAttribute("bid") || "", tag === "iframe" || tag === "frame"];
  }

  // How much of each element is in view; observers are only told when a frame was drawn.
  function visibilities(found) {
    return new Promise((resolve) => {
      const ratios = {};
      let left = found.length;
      if (!left) resolve(ratios);
      const observer = new IntersectionObserver((entries) => {
        for (const entry of entries) {
          const bid = entry.target.getAttribute("bid");
          if (!(bid in ratios)) left--;
          ratios[bid] = Math.round(entry.intersectionRatio * 100) / 100;
        }
        if (left <= 0) finish();
      });
      const limit = setTimeout(finish, 1000);
      function finish() {
        clearTimeout(limit);
        observer.disconnect();
        resolve(ratios);
      }
      for (const element of found) observer.observe(element);
    });
  }

  // An attribute that every element may have, and that says nothing, makes the accessibility tree show them all.
  async function mark(prefix, description, raw) {
    const seen = new Set();
    const found = [];
    const marks = new Marks();
    for (const element of elements(document)) {
      let bid = element.getAttribute("bid");
      if (bid === null || seen.has(bid)) {
        bid = newId(element, prefix);
        element.setAttribute("bid", bid);
      }
      seen.add(bid);
      found.push(element);
    }
    for (const element of found) marks.look(element);
    const result = {
      marks: marks.boxes(), focused: focused(), elements: found.length, visibility: {},
    };
    if (raw) result.visibility = await visibilities(found);
    described = found.filter((element) => !element.hasAttribute("aria-description"));
    for (const element of described) element.setAttribute("aria-description", description);
    return result;
  }

  function unmark() {
    for (const element of described) element.removeAttribute("aria-description");
    described = [];
  }

  globalThis.glovebox = { mark, unmark };
})();
