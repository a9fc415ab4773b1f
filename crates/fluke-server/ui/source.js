// The repository: which commit is in force, and why a newer one is not.

import { codeFrame, facts, moment, notice, standingSince, trouble, waiting } from "./parts.js";
import { store } from "./store.js";
import { count, shortCommit } from "./words.js";
import { h } from "./view.js";

export function sourcePage() {
  return {
    name: "source",
    title: "Source",
    isReady: () => store.source !== null || store.problem !== null,
    render() {
      const { source } = store;
      if (!source) return store.problem ? trouble("The source cannot be read", store.problem.message) : waiting("the source");
      return [
        h("header", { class: "headline" }, h("h1", null, titleOf(source)), h("p", { class: "quiet" }, source.url, source.branch && `, branch ${source.branch}`)),
        source.error && trouble("The repository did not answer", source.error, h("p", null, "Hosts are held to the last good commit meanwhile.")),
        source.rejected && rejected(source),
        facts(
          ["In force", source.commit ? [h("code", { title: source.commit }, shortCommit(source.commit)), " ", standingSince(source.commit_since)] : "nothing yet"],
          ["Newest seen", source.last_seen ? [h("code", { title: source.last_seen }, shortCommit(source.last_seen)), source.last_seen === source.commit ? " (the same)" : source.rejected ? " (rejected)" : ""] : "none"],
          ["Last answer", moment(source.last_poll)],
          ["Asked next", source.next_poll ? moment(source.next_poll) : "on a push"]),
        !source.rejected && source.diagnostics.length > 0 && [h("h2", null, "Warnings"), source.diagnostics.map(codeFrame)],
      ];
    },
  };
}

function titleOf(source) {
  if (source.rejected) return source.commit ? "The newest commit is not in force" : "No commit is in force";
  if (source.error) return "The repository cannot be read";
  return source.commit ? "The newest commit is in force" : "Reading the repository";
}

function rejected(source) {
  return [
    notice("failed", `Commit ${shortCommit(source.last_seen)} was rejected: ${count(source.diagnostics.length, "problem")}`,
      h("p", null, source.commit ? `Hosts stay held to ${shortCommit(source.commit)}. ` : "", "Try it before you push: ", h("code", null, "fluke validate"), ".")),
    source.diagnostics.map(codeFrame),
  ];
}
