-- The third schema counts the octets of the callers of a peer, the owners "PEER for CALLER", together: kind 4 of
-- counter, under the name of the peer. A peer and its callers have the quota of one owner.

CREATE FUNCTION peer_of(of_owner bytea) RETURNS bytea IMMUTABLE LANGUAGE sql AS
$$SELECT CASE position(' for '::bytea IN of_owner) WHEN 0 THEN of_owner ELSE substring(of_owner FROM 1 FOR position(' for '::bytea IN of_owner) - 1) END$$;

CREATE OR REPLACE FUNCTION charge(of_node int, of_owner bytea, more bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF more <> 0 THEN
		PERFORM count_up(of_node, 0, '', '', 0, more);
		PERFORM count_up(of_node, 1, '', of_owner, 0, more);
		IF peer_of(of_owner) <> of_owner THEN
			PERFORM count_up(of_node, 4, '', peer_of(of_owner), 0, more);
		END IF;
	END IF;
END $$;

-- used_by returns the octets of a peer and all its callers.
CREATE FUNCTION used_by(peer bytea) RETURNS bigint STABLE LANGUAGE sql AS
$$SELECT coalesce(sum(octets), 0)::bigint FROM counts WHERE kind IN (1, 4) AND space = '' AND name = peer$$;

-- fits reports whether an owner may use so much more without knowing the shares of others, and whether the callers of
-- its peer have a quota each.
CREATE OR REPLACE FUNCTION fits(of_owner bytea, more bigint, per_owner bigint, open bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF more <= 0 OR open = 9223372036854775807 THEN
		RETURN true;
	END IF;
	RETURN more + (SELECT coalesce(sum(octets), 0) FROM counts WHERE kind = 0) <= open AND more + used_by(peer_of(of_owner)) <= per_owner;
END $$;

CREATE OR REPLACE FUNCTION append_many(of_node int, of_space bytea, of_log bytea, owners bytea[], ids bytea[], datas bytea[], expiries bigint[],
	crcs bigint[], log_crcs bigint[], at bigint, per_owner bigint, open bigint)
RETURNS TABLE (status int, number bigint, had_owner bytea, had_expires bigint, had_sum bigint, had bytea)
LANGUAGE plpgsql AS $$
DECLARE
	l log;
	one record;
	total bigint;
	n int := cardinality(ids);
	added bigint[];
BEGIN
	SELECT * INTO l FROM log WHERE space = of_space AND name = of_log FOR NO KEY UPDATE;
	SELECT sum(cost(octet_length(id), octet_length(data))) INTO total FROM unnest(ids, datas) AS u (id, data);
	IF l.id IS NOT NULL AND open >= total + (SELECT coalesce(sum(octets), 0) FROM counts WHERE kind = 0)
			AND per_owner >= total + (SELECT max(used_by(peer)) FROM (SELECT DISTINCT peer_of(owner) AS peer FROM unnest(owners) AS u (owner)) peers) THEN
		WITH fresh AS (
			INSERT INTO entry SELECT l.id, l.last + i, nullif(id, ''), owner, expiry, crc # (l.last + i) # rot(expiry, 32), data
				FROM unnest(ids, owners, expiries, crcs, datas) WITH ORDINALITY AS u (id, owner, expiry, crc, data, i)
				ON CONFLICT (log, id) WHERE id IS NOT NULL DO NOTHING RETURNING seq)
		SELECT array_agg(seq) INTO added FROM fresh;
	END IF;
	IF coalesce(cardinality(added), 0) < n THEN
		DELETE FROM entry WHERE log = l.id AND seq = ANY (added);
		FOR i IN 1 .. n LOOP
			SELECT * INTO one FROM append(of_node, of_space, of_log, owners[i], ids[i:i], datas[i:i], expiries[i], crcs[i:i], log_crcs[i],
				at, per_owner, open);
			status := one.status; number := one.number; had_owner := one.had_owner; had_expires := one.had_expires;
			had_sum := one.had_sum; had := one.had;
			RETURN NEXT;
			EXIT WHEN status = 10;
		END LOOP;
		RETURN;
	END IF;
	RETURN QUERY SELECT 0, l.last + i, NULL::bytea, NULL::bigint, NULL::bigint, NULL::bytea FROM generate_series(1, n) AS i;
	UPDATE log SET last = l.last + n, sum = l.sum # rot(l.last, 21) # rot(l.last + n, 21) WHERE id = l.id;
	PERFORM count_up(of_node, 0, '', '', 0, total);
	PERFORM count_up(of_node, 1, '', owner, 0, more) FROM (
		SELECT owner, sum(cost(octet_length(id), octet_length(data)))::bigint AS more FROM unnest(owners, ids, datas) AS u (owner, id, data)
		GROUP BY owner ORDER BY owner) shares;
	PERFORM count_up(of_node, 4, '', peer, 0, more) FROM (
		SELECT peer_of(owner) AS peer, sum(cost(octet_length(id), octet_length(data)))::bigint AS more FROM unnest(owners, ids, datas) AS u (owner, id, data)
		WHERE peer_of(owner) <> owner GROUP BY peer ORDER BY peer) shares;
END $$;

INSERT INTO counter
	SELECT 4, '', peer_of(name), node, 0, sum(octets)::bigint, tally(0, sum(octets)::bigint, 0) FROM counts
	WHERE kind = 1 AND space = '' AND peer_of(name) <> name GROUP BY peer_of(name), node HAVING sum(octets) <> 0;
