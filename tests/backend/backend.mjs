// node backend.mjs SECRET
//
// The same backend as backend.py, built on tests/example/encke-backend.mjs.

import { createServer } from "node:http";
import { emit, objectsFrom } from "../browser/test.mjs";
import { publish, PublishError, signToken, VerificationError, verifyRequest } from "../example/encke-backend.mjs";

const SECRET = process.argv[2];
const ANSWERS = { "/connect": { token: true }, "/subscribe": { allow: true }, "/call": { data: "called" } };

const server = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  try {
    emit({ verified: verifyRequest(SECRET, request.headers, body) });
    response.end(JSON.stringify(ANSWERS[request.url] ?? {}));
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    emit({ refused: error.message });
    response.writeHead(401).end();
  }
});
server.listen(0, "127.0.0.1", () => emit({ port: server.address().port }));

for await (const { sign, publish: message, options } of objectsFrom(process.stdin)) {
  try {
    emit({ done: sign ? signToken(...sign, options) : await publish(...message, options) });
  } catch (error) {
    if (!(error instanceof PublishError)) throw error;
    emit({ failed: { status: error.status, code: error.code, text: error.message } });
  }
}
process.exit();
