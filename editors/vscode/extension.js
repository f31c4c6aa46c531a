// Starts mgn-lsp for .mgn files, and stops it.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function settings() {
  const given = workspace.getConfiguration("mgn");
  return { dims: given.get("dims"), pause: given.get("pause") };
}

exports.activate = function (context) {
  const [command, ...args] = workspace.getConfiguration("mgn").get("server");
  client = new LanguageClient("mgn", "mgn", { command, args }, {
    documentSelector: [{ language: "mgn" }],
    initializationOptions: settings(),
    synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.mgn") },
  });
  context.subscriptions.push(
    workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("mgn")) {
        client.sendNotification("workspace/didChangeConfiguration", { settings: { mgn: settings() } });
      }
    }),
  );
  return client.start();
};

exports.deactivate = function () {
  return client && client.stop();
};
