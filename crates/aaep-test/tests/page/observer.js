() => {
  // What a test observes of a page: what was announced, problems, and how long tasks take.
  const observed = { heard: [], problems: [], longest: 0, beats: 0 };
  window.observed = observed;
  addEventListener("securitypolicyviolation", (event) => observed.problems.push(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  addEventListener("error", (event) => observed.problems.push(`error: ${event.message}`));
  addEventListener("unhandledrejection", (event) => observed.problems.push(`rejection: ${event.reason}`));
  if (typeof document.ariaNotify === "function") {
    const notify = document.ariaNotify.bind(document);
    document.ariaNotify = (text, options) => {
      observed.heard.push(`${options?.priority === "high" ? "assertive" : "polite"}: ${text}`);
      notify(text, options);
    };
  }
  document.addEventListener("DOMContentLoaded", () => {
    for (const region of document.querySelectorAll("[aria-live]")) {
      if (region.textContent.trim() !== "") observed.problems.push("a live region is not empty at load");
      const note = (changes) => {
        for (const change of changes) {
          for (const node of change.addedNodes) observed.heard.push(`${region.getAttribute("aria-live")}: ${node.textContent}`);
        }
      };
      new MutationObserver(note).observe(region, { childList: true, subtree: true, characterData: true });
    }
  });
  if (globalThis.PerformanceObserver?.supportedEntryTypes?.includes("longtask")) {
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) observed.longest = Math.max(observed.longest, entry.duration);
    }).observe({ type: "longtask", buffered: true });
  }
}
