// Message for a failed request that changes something. Only a refusal proves that nothing was done: if the
// response is lost, or is itself uncertain, the outcome is unknown.

import { ApiError, reasonOf } from "./api.js";

// Codes of 5xx responses that prove that the server did nothing.
const REFUSALS = ["limit", "unavailable", "overloaded", "draining"];

const isRefusal = (error) => error instanceof ApiError && (error.status < 500 || REFUSALS.includes(error.code));

// `done`: the participle of the action, such as "published".
export const failureOf = (error, done) => `${isRefusal(error) ? `Not ${done}` : `Unknown whether it was ${done}`}: ${reasonOf(error)}`;
