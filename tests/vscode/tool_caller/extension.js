// Calls the tool that call.json of the workspace names, and writes what came of it to answer.json.
const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");

exports.activate = (context) => {
  context.subscriptions.push(vscode.commands.registerCommand("toolCaller.call", call));
};

async function call() {
  const folder = vscode.workspace.workspaceFolders[0].uri.fsPath;
  const { name, input } = JSON.parse(fs.readFileSync(path.join(folder, "call.json"), "utf8"));
  const answer = { tools: vscode.lm.tools.map((tool) => tool.name) };
  try {
    const result = await vscode.lm.invokeTool(name, { input, toolInvocationToken: undefined });
    answer.text = result.content.map((part) => part.value).join("");
  } catch (error) {
    answer.error = String(error);
  }
  fs.writeFileSync(path.join(folder, "answer.new"), JSON.stringify(answer));
  fs.renameSync(path.join(folder, "answer.new"), path.join(folder, "answer.json"));
}
