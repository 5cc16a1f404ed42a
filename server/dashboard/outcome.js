// What is said when something that was asked for has failed. That it was not done is said only when the server says so: an answer that is
// lost, or that is itself unsure, leaves it open.

import { ApiError, reasonOf } from "./api.js";

// With these codes and a status of 5xx the server has done nothing.
const REFUSALS = ["limit", "unavailable", "overloaded", "draining"];

const isRefusal = (error) => error instanceof ApiError && (error.status < 500 || REFUSALS.includes(error.code));

// `done`: what it would be otherwise, such as "published".
export const failureOf = (error, done) => `${isRefusal(error) ? `Not ${done}` : `Not known whether it was ${done}`}: ${reasonOf(error)}`;
