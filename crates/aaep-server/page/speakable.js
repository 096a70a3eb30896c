// Makes the text of agents readable: code is told apart from prose, and marks of Markdown are left out.

import { t } from "./phrases.js";

/**
 * @typedef {{kind: "text", text: string} | {kind: "code", language: string, text: string, isComplete: boolean}} Block
 */

const FENCE = /^\s*(?:```|~~~)\s*([^\s`]*)/;

/**
 * Divides a text into paragraphs and code blocks.
 * @param {string} text @param {boolean} isMarkdown @returns {Block[]}
 */
export function blocksOf(text, isMarkdown) {
  /** @type {Block[]} */
  const blocks = [];
  /** @type {{language: string, lines: string[]} | undefined} */
  let code;
  /** @type {string[]} */
  let lines = [];
  const endText = () => {
    const paragraph = lines.join("\n").trim();
    if (paragraph !== "") blocks.push({ kind: "text", text: paragraph });
    lines = [];
  };
  for (const line of text.split("\n")) {
    const fence = isMarkdown || code ? FENCE.exec(line) : null;
    if (code && fence) {
      blocks.push({ kind: "code", language: code.language, text: code.lines.join("\n"), isComplete: true });
      code = undefined;
    } else if (code) code.lines.push(line);
    else if (fence) {
      endText();
      code = { language: fence[1] ?? "", lines: [] };
    } else if (line.trim() === "") endText();
    else lines.push(line);
  }
  endText();
  if (code) blocks.push({ kind: "code", language: code.language, text: code.lines.join("\n"), isComplete: false });
  return blocks;
}

/** @param {string} text @returns {string} The text without the marks of Markdown. */
export function withoutMarks(text) {
  return text
    .replace(/^\s{0,3}#{1,6}\s+/gm, "")
    .replace(/^\s{0,3}>\s?/gm, "")
    .replace(/^\s*[-*+]\s+(?:\[[ xX]\]\s+)?/gm, "")
    .replace(/^\s*\|?[\s:|-]+\|[\s:|-]*$/gm, "")
    .replace(/\s*\|\s*/g, ", ")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/(\*\*|__|`)(.*?)\1/g, "$2")
    .replace(/(^|\W)[*_](\S[^*_]*)[*_](?=\W|$)/g, "$1$2")
    .replace(/^(?:, )+|(?:, )+$/gm, "")
    .replace(/\s+/g, " ")
    .trim();
}

/** @param {Block & {kind: "code"}} block @returns {string} A name for code that is not read aloud. */
export function nameOfCode(block) {
  const lines = block.text === "" ? 0 : block.text.split("\n").length;
  return block.language === "" ? t("code-block-plain", { lines }) : t("code-block", { language: block.language, lines });
}

/** The text of outputs as it comes, chunk by chunk. */
export class OutputText {
  /** @type {string} */
  text = "";
  isMarkdown = false;
  /** How many blocks, and characters of the last one, were said. */
  #saidBlocks = 0;
  #saidChars = 0;

  /** The most characters of one output that are kept. */
  static MAX_CHARS = 200_000;

  /** @param {string} chunk @param {string} contentType */
  add(chunk, contentType) {
    this.isMarkdown ||= /markdown/.test(contentType) || chunk.includes("```");
    if (this.text.length < OutputText.MAX_CHARS) this.text += chunk;
  }

  /** @returns {Block[]} */
  blocks() {
    return blocksOf(this.text, this.isMarkdown);
  }

  /** @param {boolean} isComplete @returns {string[]} What was not said yet, in whole units. */
  takeNew(isComplete) {
    const blocks = this.blocks();
    /** @type {string[]} */
    const said = [];
    for (const [i, block] of blocks.entries()) {
      if (i < this.#saidBlocks) continue;
      const isLast = i === blocks.length - 1;
      if (block.kind === "code") {
        if (isLast && !block.isComplete && !isComplete) break;
        said.push(nameOfCode(block));
        this.#next();
      } else {
        const rest = block.text.slice(this.#saidChars);
        const words = this.isMarkdown ? withoutMarks(rest) : rest.replace(/\s+/g, " ").trim();
        if (words !== "") said.push(words);
        if (isLast && !isComplete) this.#saidChars = block.text.length;
        else this.#next();
      }
    }
    return said;
  }

  #next() {
    this.#saidBlocks += 1;
    this.#saidChars = 0;
  }
}
