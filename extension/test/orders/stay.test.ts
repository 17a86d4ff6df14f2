import assert from "node:assert/strict";
import { test } from "node:test";

import { Stay } from "../../src/orders/stay";
import type { Arrive } from "../../src/protocol";

const never = new AbortController().signal;

function arrival(stay: string, more: Partial<Arrive> = {}): Arrive {
  return { kind: "arrive", agent: "OpenHands", stay, ask: false, env: {}, ...more };
}

test("an agent comes and leaves, and a departure of another one changes nothing", async () => {
  const stay = new Stay(async () => Promise.resolve(false));
  let changes = 0;
  stay.onChange(() => (changes += 1));
  assert.equal(stay.agent, "An agent");
  assert.equal(await stay.arrive(arrival("one", { env: { A: "1" } }), never), true);
  assert.deepEqual([stay.agent, stay.environment], ["OpenHands", { A: "1" }]);
  assert.equal(await stay.arrive(arrival("one"), never), false);
  assert.equal(stay.depart({ kind: "depart", stay: "another" }), false);
  assert.equal(stay.depart({ kind: "depart", stay: "one" }), true);
  assert.deepEqual([stay.agent, stay.environment, changes], ["An agent", {}, 2]);
});

test("the user is asked, told who is there already, and decides", async () => {
  const questions: string[] = [];
  let allowed = false;
  const stay = new Stay(async (question) => {
    questions.push(question);
    return await Promise.resolve(allowed);
  });
  await assert.rejects(stay.arrive(arrival("one", { ask: true }), never), { code: "denied" });
  assert.equal(stay.agent, "An agent");
  allowed = true;
  await stay.arrive(arrival("one", { ask: true }), never);
  await stay.arrive(arrival("two", { ask: true, agent: "Another" }), never);
  assert.deepEqual(questions, [
    "OpenHands wants to work in this window.",
    "OpenHands wants to work in this window.",
    "Another wants to work in this window. OpenHands, which works here now, is ended then.",
  ]);
});

test("a question that was withdrawn allows nothing", async () => {
  const controller = new AbortController();
  const stay = new Stay(async () => {
    controller.abort();
    return await Promise.resolve(true);
  });
  await assert.rejects(stay.arrive(arrival("one", { ask: true }), controller.signal), { code: "disconnected" });
  assert.equal(stay.agent, "An agent");
});

test("attack: a name cannot put a link into a notification", async () => {
  const questions: string[] = [];
  const stay = new Stay(async (question) => {
    questions.push(question);
    return await Promise.resolve(true);
  });
  await stay.arrive(arrival("one", { ask: true, agent: "[Allow](command:evil)" }), never);
  assert.deepEqual(questions, ["Allow  command:evil wants to work in this window."]);
  assert.equal(stay.agent, "Allow  command:evil");
});

test("attack: variables that make a shell execute something are refused", async () => {
  const stay = new Stay(async () => Promise.resolve(true));
  const names = ["PROMPT_COMMAND", "BASH_ENV", "LD_PRELOAD", "PATH", "GIT_SSH_COMMAND", "PYTHONSTARTUP", "GIT_PAGER", "RIPGREP_CONFIG_PATH"];
  for (const name of names) {
    const order = arrival("one", { env: { [name]: "evil", FINE: "1" } });
    await assert.rejects(stay.arrive(order, never), { code: "denied", message: new RegExp(`command: ${name}\\.`) });
  }
  assert.deepEqual([stay.agent, stay.environment], ["An agent", {}]);
  const env = { GITHUB_TOKEN: "t", PYTHONUNBUFFERED: "1", GIT_AUTHOR_NAME: "a", OPENHANDS_SESSION_ID: "s" };
  assert.equal(await stay.arrive(arrival("one", { env }), never), true);
});
