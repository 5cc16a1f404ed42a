// Message about a failed request that should have changed something. Only a refusal proves that nothing was
// changed: if the response is lost, or says that the outcome is uncertain, the outcome is unknown.

import { ApiError, reasonOf } from "./api.js";

// Codes of 5xx responses that prove that the server did nothing.
const REFUSALS = ["limit", "unavailable", "overloaded", "draining"];

const isRefusal = (error) => error instanceof ApiError && (error.status < 500 || REFUSALS.includes(error.code));

// `done`: the participle of the action, such as "published".
export const failureOf = (error, done) => `${isRefusal(error) ? `Not ${done}` : `Unknown whether it was ${done}`}: ${reasonOf(error)}`;
