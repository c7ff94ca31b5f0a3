-- The second schema adds append_many.

-- append_many appends an entry for each of several owners, and returns what append returns for each. If all
-- are new and fit, that needs few statements; otherwise append is called for one after the other, up to the first that asks.
CREATE FUNCTION append_many(of_node int, of_space bytea, of_log bytea, owners bytea[], ids bytea[], datas bytea[], expiries bigint[],
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
			AND per_owner >= total + (SELECT coalesce(max(octets), 0) FROM (SELECT sum(octets) AS octets FROM counts
				WHERE kind = 1 AND space = '' AND name = ANY (owners) GROUP BY name) used) THEN
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
END $$;
