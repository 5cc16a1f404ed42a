-- Operations on the record of a session, which several servers may own one after the other. `encke_core::ownership` describes the protocol.
--
-- The record is a hash with these fields:
--   owner        the server that owns the session (empty: none, since the last owner has released it)
--   term         the term as `<generation> <number>`
--   written      generation in which an owner last wrote the record. In a later one, Redis may have lost newer writes.
--   version      version of the state within the term
--   attached     1 if the session has a client, otherwise 0
--   adopted      former owner and term of an adopted session, as `<server> <term>`. Cleared when a client reaches the adopter, or at the
--                first write of the former owner after it has claimed the session back.
--   until        end of the reconnect window in milliseconds, if the session has no client
--   at           time at which an owner last wrote the record
--   secret       digest of the session's secret
--   user         user of the session as `=<name>` (empty: anonymous)
--   state        the state
-- After a session has ended, its record keeps only `secret` and `ended` (the close code), and expires after a while.
--
-- `same_redis.lua` must precede this script: it rejects a request of a server that does not know the current generation.
--
-- KEYS:
--   1  the record
--   2  prefix of a set for each server: its sessions. The set with the empty name has the sessions without an owner.
--   3  stream of ended sessions
--   4  sorted set of the servers, with the expiry of each lease
--   5  sorted set of the servers, with the time at which each got its lease
-- ARGV:
--   1  write, verify, release, end, claim or adopt
--   2  the server
--   3  the generation
--   4  the session
--   write, verify, release, end (which has no effect if the record has a later version):
--     5  the term's generation, and 6 its number
--     7  version of the state
--     8  1 if the session has a client, otherwise 0 (write, verify)
--     9  1 if the record may be created, otherwise 0 (verify: generation in which the record existed)
--     10 remaining time of the reconnect window in milliseconds
--     11 digest of the secret
--     12 the state (end: the close code)
--     13 how long the end is remembered, in milliseconds (end)
--     14 the user (*: as before)
--   claim:
--     5  digest of the secret
--     6  owner from which the session is taken even if it has a client (empty: none), 7 and 8 its term
--     9  same as argument 7 of adopt
--     10 user of the client (*: not known, and not compared)
--   adopt:
--     5  length of the reconnect window in milliseconds
--     6  how long a released session is left to the server that its client reaches, in milliseconds
--     7  how long a server must have held its lease before it may regard others as dead, in milliseconds
--     8  1 if the server owns the session and does not have it, because it has received no reply to a claim, otherwise 0
-- Returns one of:
--   `accepted`, the term's generation and number, and the current generation
--   `fenced`, and the close code if the session has ended
--   `unverified`
--   `owned`, the owner and its term
--   `unknown`
--   `unsettled` (claim: the record may have been lost)
--   `other_user` (claim)
--   `granted`, the term's generation and number, the version, 1 if the session has a client, 1 if the record is complete, the remaining
--   time, the state, the digest of the secret, and the former owner (empty: none, or the request was repeated)

-- Approximate length of the stream of ended sessions. The oldest entries are removed, whether or not they were read.
local MAX_ENDED = 10000

local operation, server, generation, session = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local record = redis.call('HMGET', KEYS[1], 'owner', 'term', 'written', 'version', 'attached', 'adopted', 'until', 'secret', 'state', 'ended', 'at', 'user')
local owner, term, ended = record[1], record[2], record[10]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function numbers(text)
  local first, second = string.match(text, '^(%d+) (%d+)$')
  return tonumber(first), tonumber(second)
end

local function has_lease(name)
  local expires = name ~= '' and redis.call('ZSCORE', KEYS[4], name)
  return expires and tonumber(expires) > now
end

local function set_owner(new)
  if owner and owner ~= new then
    redis.call('SREM', KEYS[2] .. owner, session)
  end
  if redis.call('SADD', KEYS[2] .. new, session) == 1 and new ~= '' then
    -- Other servers find the sessions of a dead server by its lease. A request that was delayed beyond the end of the lease may come after
    -- they have removed the lease.
    redis.call('ZADD', KEYS[4], 'NX', 0, new)
  end
end

if operation == 'claim' or operation == 'adopt' then
  if operation == 'claim' and not record[8] then
    -- If no server has held its lease for long, Redis may have lost the record, and the session's server may not have written it again yet.
    local oldest = redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')
    return { oldest[2] and oldest[2] + ARGV[9] <= now and 'unknown' or 'unsettled' }
  end
  if operation == 'claim' and record[8] ~= ARGV[5] then
    return { 'unknown' }
  end
  if ended then
    return { 'fenced', ended }
  end
  if not owner then
    return { 'unknown' }
  end
  -- If a server has not held its own lease for long, Redis may have lost all leases, and others may not have renewed theirs yet.
  local since = has_lease(server) and redis.call('ZSCORE', KEYS[5], server)
  local is_settled = since and since + ARGV[operation == 'claim' and 9 or 7] <= now
  local is_attached, is_alive = record[5] == '1', has_lease(owner) or not is_settled
  local term_generation, number = numbers(term)
  if operation == 'claim' and ARGV[10] ~= '*' and record[12] and record[12] ~= ARGV[10] then
    return { 'other_user' }
  end
  local is_complete = record[3] == generation
  local deadline = record[7]
  if operation == 'claim' then
    if is_attached and owner ~= server and owner ~= '' then
      if is_alive and (ARGV[6] ~= owner or ARGV[7] .. ' ' .. ARGV[8] ~= term) then
        return { 'owned', owner, term_generation, number }
      end
    end
  else
    local is_adoptable = (owner ~= server and not is_alive) or (owner == server and ARGV[8] == '1')
    if owner == '' then
      is_adoptable = record[11] + ARGV[6] <= now
    end
    if not is_adoptable then
      return { 'unknown' }
    end
    if is_attached or not is_complete then
      deadline = string.format('%d', now + ARGV[5])
    end
  end
  local remaining = math.max(deadline - now, 0)
  if operation == 'claim' and owner == server then
    -- A repeated claim.
    return { 'granted', term_generation, number, tonumber(record[4]), tonumber(record[5]), is_complete and 1 or 0, remaining, record[9], record[8], '' }
  end
  local claimed = operation == 'claim'
  redis.call('HSET', KEYS[1], 'owner', server, 'term', generation .. ' ' .. string.format('%d', number + 1), 'version', 0,
    'attached', claimed and 1 or 0, 'adopted', claimed and '' or owner .. ' ' .. term, 'until', deadline)
  set_owner(server)
  return { 'granted', tonumber(generation), number + 1, 0, claimed and 1 or 0, is_complete and 1 or 0, remaining, record[9], record[8], owner }
end

if ended then
  return { 'fenced', ended }
end
local given, is_verify = ARGV[5] .. ' ' .. ARGV[6], operation == 'verify'
if not owner then
  if not is_verify and (ARGV[9] ~= '1' or tonumber(ARGV[5]) < tonumber(generation)) then
    return { 'unverified' }
  elseif is_verify and ARGV[9] == generation then
    -- No failover has lost the record: the session has ended, and its end has been forgotten.
    return { 'fenced', '' }
  end
elseif owner == server and term == given then
  local is_withdrawn = operation == 'end' and tonumber(ARGV[7]) < tonumber(record[4])
  if not is_verify and (tonumber(record[3]) < tonumber(generation) or is_withdrawn) then
    return { 'unverified' }
  end
else
  local term_generation, number = numbers(term)
  local given_generation, given_number = numbers(given)
  local is_older = term_generation < given_generation or (term_generation == given_generation and number < given_number)
  if not is_verify then
    return { 'fenced' }
  elseif is_older and (ARGV[8] == '1' or record[5] ~= '1' or record[3] ~= generation) then
    -- Redis has lost this server's claim and everything after it, so the record names an earlier owner. The earlier owner keeps the
    -- session if it has verified the session since and has a client, and this server has none.
    record[4] = nil
  elseif owner == server and record[6] == server .. ' ' .. given then
    -- This server has claimed the session back already, and has not received the reply.
    given = term
  elseif record[6] == server .. ' ' .. given and ARGV[8] == '1' then
    given, record[4] = generation .. ' ' .. string.format('%d', number + 1), nil
  else
    return { 'fenced' }
  end
end

local given_generation, given_number = numbers(given)
local accepted = { 'accepted', given_generation, given_number, tonumber(generation) }
if operation == 'end' then
  redis.call('HSET', KEYS[1], 'ended', ARGV[12], 'secret', ARGV[11])
  redis.call('HDEL', KEYS[1], 'owner', 'term', 'written', 'version', 'attached', 'adopted', 'until', 'state', 'at', 'user')
  redis.call('PEXPIRE', KEYS[1], ARGV[13])
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', MAX_ENDED, '*', 'session', session, 'code', ARGV[12])
  if owner then
    redis.call('SREM', KEYS[2] .. owner, session)
  end
  return accepted
end
if owner == server and term == given and record[4] and tonumber(record[4]) > tonumber(ARGV[7]) then
  return accepted
end
local is_release, adopted = operation == 'release', record[6] or ''
local is_own = string.sub(adopted, 1, #server + 1) == server .. ' '
if is_release or (ARGV[8] == '1' and not (is_verify and is_own)) or (ARGV[8] ~= '1' and is_own) then
  adopted = ''
end
redis.call('HSET', KEYS[1], 'owner', is_release and '' or server, 'term', given, 'written', generation, 'version', ARGV[7],
  'attached', is_release and 0 or ARGV[8], 'adopted', adopted, 'until', string.format('%d', now + ARGV[10]), 'secret', ARGV[11], 'state', ARGV[12], 'at', now)
if ARGV[14] ~= '*' then
  redis.call('HSET', KEYS[1], 'user', ARGV[14])
end
set_owner(is_release and '' or server)
return accepted
