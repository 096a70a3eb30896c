// Parts of the browser that the type checker does not know yet.
interface Document {
  ariaNotify?(text: string, options?: { priority?: "normal" | "high" }): void;
}
interface Navigator {
  userAgentData?: { brands: { brand: string; version: string }[] };
}
