// What is said when a request that changes something has failed. Only a refusal means that nothing was done: when the answer is lost, or
// is itself unsure, nobody knows.

import { ApiError, reasonOf } from "./api.js";

// With these codes and a status of 5xx the server has done nothing.
const REFUSALS = ["limit", "unavailable", "overloaded", "draining"];

const isRefusal = (error) => error instanceof ApiError && (error.status < 500 || REFUSALS.includes(error.code));

// `done`: what it would be otherwise, such as "published".
export const failureOf = (error, done) => `${isRefusal(error) ? `Not ${done}` : `Not known whether it was ${done}`}: ${reasonOf(error)}`;
