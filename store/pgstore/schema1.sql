-- The first schema. Times are nanoseconds since 1970 on the clock of the store; 0 means never. Names
-- are octets, compared as octets. Rows with data of callers have a checksum: the CRC that the node
-- computes over names and data, with the numbers that a function sets mixed in (mix). A function
-- that changes a number exchanges the old mix for the new one, so that earlier damage stays visible. The
-- checksum of a count is of its numbers only (tally).

-- rot rotates the bits of a number.
CREATE FUNCTION rot(x bigint, k int) RETURNS bigint IMMUTABLE LANGUAGE sql AS
$$SELECT (x << k) | ((x >> (64 - k)) & ((1::bigint << k) - 1))$$;

CREATE FUNCTION tally(a bigint, b bigint, c bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS
$$SELECT 6004230478338969423 # a # rot(b, 21) # rot(c, 42)$$;

-- damaged ends a transaction that needs a damaged count.
CREATE FUNCTION damaged(space bytea, name bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the count of "%" in space "%"', encode(name, 'escape'), encode(space, 'escape') USING ERRCODE = 'SW002';
END $$;

CREATE TABLE state (
	id         int PRIMARY KEY CHECK (id = 1),
	schema     int NOT NULL,
	min_reader int NOT NULL,               -- programs from this schema on can use the database
	written    boolean NOT NULL,           -- anything was ever written
	filling    boolean NOT NULL DEFAULT false -- it is being filled, and not complete
);
CREATE TABLE clock (now bigint NOT NULL);  -- one row
INSERT INTO clock VALUES (0);

CREATE SEQUENCE versions;                  -- of records and leases
CREATE SEQUENCE numbers;                   -- of items

CREATE TABLE node (
	id        int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name      bytea NOT NULL UNIQUE,
	epoch     bigint NOT NULL,             -- grows with each opening; who has an older one cannot write
	batch     bigint NOT NULL,             -- the last transaction of the node
	void      bigint NOT NULL DEFAULT 0,   -- the last number that was used up without its transaction
	address   text NOT NULL,
	heartbeat timestamptz NOT NULL,
	server    timestamptz                  -- start of the server that has the lock of the name; NULL: none has it
) WITH (fillfactor = 50);

-- Processes that use the database, or wait for it. No transaction of the store depends on it.
CREATE TABLE member (
	name        text PRIMARY KEY,
	process     bytea NOT NULL,            -- of one start
	address     text NOT NULL,             -- where other members reach it; empty: nowhere
	certificate bytea NOT NULL,            -- that it shows there
	version     text NOT NULL,
	config      text NOT NULL,             -- digest of its configuration
	started     timestamptz NOT NULL,
	seen        timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Counts of one node. The sum over all nodes counts, so that no node waits for another one.
CREATE TABLE counter (
	kind   int NOT NULL,                   -- 0 all, 1 an owner, 2 a queue, 3 a space
	space  bytea NOT NULL,
	name   bytea NOT NULL,
	node   int NOT NULL,
	items  bigint NOT NULL,                -- unfinished ones; of a space all
	octets bigint NOT NULL,
	sum    bigint NOT NULL,
	PRIMARY KEY (kind, space, name, node)
) WITH (fillfactor = 50);
CREATE VIEW counts AS SELECT kind, space, name, node, items, octets FROM counter
	WHERE CASE WHEN sum = tally(items, octets, 0) THEN true ELSE damaged(space, name) END;
CREATE TABLE held (                        -- items of an owner in a queue
	space  bytea NOT NULL,
	queue  bytea NOT NULL,
	owner  bytea NOT NULL,
	node   int NOT NULL,
	items  bigint NOT NULL,                -- unfinished
	kept   bigint NOT NULL,                -- all
	octets bigint NOT NULL,
	sum    bigint NOT NULL,
	PRIMARY KEY (space, queue, owner, node)
) WITH (fillfactor = 50);
CREATE VIEW holdings AS SELECT space, queue, owner, node, items, kept, octets FROM held
	WHERE CASE WHEN sum = tally(items, kept, octets) THEN true ELSE damaged(space, queue) END;
CREATE TABLE turn (                        -- the owner of the last item that a long queue gave to a node
	space bytea NOT NULL,
	queue bytea NOT NULL,
	node  int NOT NULL,
	owner bytea NOT NULL,
	PRIMARY KEY (space, queue, node)
) WITH (fillfactor = 50);

CREATE TABLE record (
	space   bytea NOT NULL,
	key     bytea NOT NULL,
	version bigint NOT NULL,
	owner   bytea NOT NULL,                -- who made it
	expires bigint NOT NULL,
	sum     bigint NOT NULL,               -- of space, key and value, and the numbers
	payer   bigint NOT NULL,               -- checksum of space, key and owner
	value   bytea NOT NULL,
	PRIMARY KEY (space, key)
);
ALTER TABLE record ALTER value SET STORAGE EXTERNAL;
CREATE INDEX record_expires ON record (expires) WHERE expires > 0;

CREATE TABLE log (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	space   bytea NOT NULL,
	name    bytea NOT NULL,
	owner   bytea NOT NULL,                -- of the first entry
	last    bigint NOT NULL,               -- the last number ever used
	trimmed bigint NOT NULL,               -- entries up to here do not count any more
	sum     bigint NOT NULL,
	UNIQUE (space, name)
) WITH (fillfactor = 50);
CREATE TABLE entry (
	log     bigint NOT NULL,
	seq     bigint NOT NULL,
	id      bytea,                         -- NULL: without
	owner   bytea NOT NULL,
	expires bigint NOT NULL,
	sum     bigint NOT NULL,
	data    bytea NOT NULL,
	PRIMARY KEY (log, seq)
);
ALTER TABLE entry ALTER data SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX entry_id ON entry (log, id) WHERE id IS NOT NULL;
CREATE INDEX entry_expires ON entry (expires) WHERE expires > 0;
CREATE TABLE garbage (
	log     bigint PRIMARY KEY,            -- its entries up to
	through bigint NOT NULL                -- this number are still to be deleted
);

CREATE TABLE item (
	space   bytea NOT NULL,
	id      bytea NOT NULL,
	queue   bytea NOT NULL,
	n       bigint NOT NULL,               -- place in the queue
	mark    bytea NOT NULL,
	owner   bytea NOT NULL,
	done    boolean NOT NULL,              -- only the id is remembered
	lease   bigint NOT NULL,               -- the last that is not ended, or 0
	tries   bigint NOT NULL,
	due     bigint NOT NULL,               -- may be taken then; under a lease its end
	expires bigint NOT NULL,
	keep    bigint NOT NULL,               -- how long the id is remembered
	size    bigint NOT NULL,               -- octets of data
	sum     bigint NOT NULL,               -- of space, id, mark and owner, and the numbers
	place   bigint NOT NULL,               -- checksum of the queue
	body    bigint NOT NULL,               -- checksum of the data
	data    bytea NOT NULL,
	PRIMARY KEY (space, id)
);
ALTER TABLE item ALTER data SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX item_n ON item (n);
CREATE INDEX item_queue ON item (space, queue, n);
CREATE INDEX item_due ON item (space, queue, due, n) WHERE NOT done;
CREATE INDEX item_owner ON item (space, queue, owner, due, n) WHERE NOT done;
CREATE INDEX item_expires ON item (space, expires) WHERE expires > 0;
CREATE INDEX item_keep ON item (keep) WHERE done;

CREATE FUNCTION mix(i item) RETURNS bigint IMMUTABLE LANGUAGE sql AS
$$SELECT i.n # rot(i.lease, 9) # rot(i.tries, 18) # rot(i.due, 27) # rot(i.expires, 36) # rot(i.keep, 45) # rot(i.size, 54) # rot(i.done::int, 62)$$;

CREATE FUNCTION mix(l log) RETURNS bigint IMMUTABLE LANGUAGE sql AS
$$SELECT l.id # rot(l.last, 21) # rot(l.trimmed, 42)$$;

-- cost is what a row counts against quotas.
CREATE FUNCTION cost(names bigint, value bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS
$$SELECT names + value + 64$$;

CREATE FUNCTION cost(i item) RETURNS bigint IMMUTABLE LANGUAGE sql AS
$$SELECT cost(octet_length(i.space) + octet_length(i.queue) + octet_length(i.id) + octet_length(i.mark), i.size)$$;

-- begin_batch is the first statement of a transaction of a node. Without a row the node was taken over.
CREATE FUNCTION begin_batch(of_node int, of_epoch bigint, of_batch bigint, at bigint, step bigint, OUT latest bigint)
LANGUAGE plpgsql AS $$
BEGIN
	UPDATE node SET batch = of_batch, heartbeat = clock_timestamp() WHERE id = of_node AND epoch = of_epoch AND batch = of_batch - 1;
	IF NOT FOUND THEN
		IF EXISTS (SELECT FROM node WHERE id = of_node AND (epoch, batch) < (of_epoch, of_batch - 1)) THEN
			RAISE EXCEPTION 'this server lacks what the node has committed: it is an earlier primary' USING ERRCODE = '57P03';
		END IF;
		RAISE EXCEPTION 'epoch % of this node has ended', of_epoch USING ERRCODE = 'SW001';
	END IF;
	SELECT now INTO latest FROM clock;
	IF latest + step < at THEN
		UPDATE clock SET now = at WHERE now < at AND EXISTS (SELECT FROM clock FOR UPDATE SKIP LOCKED);
	END IF;
END $$;

CREATE FUNCTION count_up(of_node int, of_kind int, of_space bytea, of_name bytea, more bigint, more_octets bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	empty boolean;
	intact boolean;
BEGIN
	UPDATE counter SET items = items + more, octets = octets + more_octets,
			sum = sum # tally(items, octets, 0) # tally(items + more, octets + more_octets, 0)
		WHERE kind = of_kind AND space = of_space AND name = of_name AND node = of_node
		RETURNING items = 0 AND octets = 0, sum = tally(items, octets, 0) INTO empty, intact;
	IF NOT FOUND THEN
		INSERT INTO counter VALUES (of_kind, of_space, of_name, of_node, more, more_octets, tally(more, more_octets, 0));
	ELSIF NOT intact THEN
		PERFORM damaged(of_space, of_name);
	ELSIF empty THEN
		DELETE FROM counter WHERE kind = of_kind AND space = of_space AND name = of_name AND node = of_node;
		IF of_kind = 2 THEN
			DELETE FROM turn WHERE space = of_space AND queue = of_name AND node = of_node;
		END IF;
	END IF;
END $$;

CREATE FUNCTION charge(of_node int, of_owner bytea, more bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF more <> 0 THEN
		PERFORM count_up(of_node, 0, '', '', 0, more);
		PERFORM count_up(of_node, 1, '', of_owner, 0, more);
	END IF;
END $$;

-- fits reports whether an owner may use so much more without knowing the shares of others.
CREATE FUNCTION fits(of_owner bytea, more bigint, per_owner bigint, open bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF more <= 0 OR open = 9223372036854775807 THEN
		RETURN true;
	END IF;
	RETURN more + (SELECT coalesce(sum(octets), 0) FROM counts WHERE kind = 0) <= open
		AND more + (SELECT coalesce(sum(octets), 0) FROM counts WHERE kind = 1 AND space = '' AND name = of_owner) <= per_owner;
END $$;

-- count_items counts items of an owner in a queue.
CREATE FUNCTION count_items(of_node int, of_space bytea, of_queue bytea, of_owner bytea, more bigint, more_kept bigint, more_octets bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	empty boolean;
	intact boolean;
BEGIN
	UPDATE held SET items = items + more, kept = kept + more_kept, octets = octets + more_octets,
			sum = sum # tally(items, kept, octets) # tally(items + more, kept + more_kept, octets + more_octets)
		WHERE space = of_space AND queue = of_queue AND owner = of_owner AND node = of_node
		RETURNING items = 0 AND kept = 0 AND octets = 0, sum = tally(items, kept, octets) INTO empty, intact;
	IF NOT FOUND THEN
		INSERT INTO held VALUES (of_space, of_queue, of_owner, of_node, more, more_kept, more_octets, tally(more, more_kept, more_octets));
	ELSIF NOT intact THEN
		PERFORM damaged(of_space, of_queue);
	ELSIF empty THEN
		DELETE FROM held WHERE space = of_space AND queue = of_queue AND owner = of_owner AND node = of_node;
	END IF;
	IF more <> 0 THEN
		PERFORM count_up(of_node, 2, of_space, of_queue, more, more_octets);
	END IF;
	IF more_kept <> 0 THEN
		PERFORM count_up(of_node, 3, of_space, '', more_kept, 0);
	END IF;
END $$;

CREATE FUNCTION count_item(of_node int, i item, more int, more_kept int) RETURNS void LANGUAGE sql AS
$$SELECT count_items(of_node, i.space, i.queue, i.owner, more, more_kept, more * i.size)$$;

-- Statuses of an operation that may be refused. 0 to 3 of ask say which limit needs a decision.
--	0 written, 1 known or differs, 2 missing
--	10 ask for octets, 11 for a place in the queue, 12 for a place in the space

-- put also returns the record that it replaces, which the node checks before it commits.
CREATE FUNCTION put(of_node int, of_space bytea, of_key bytea, was bigint, of_owner bytea, new_value bytea, new_expires bigint, crc bigint,
	payer_crc bigint, at bigint, per_owner bigint, open bigint,
	OUT status int, OUT number bigint, OUT had_version bigint, OUT had_owner bytea, OUT had_expires bigint, OUT had_sum bigint,
	OUT had_payer bigint, OUT had bytea)
LANGUAGE plpgsql AS $$
DECLARE
	r record;
	more bigint := cost(octet_length(of_space) + octet_length(of_key), octet_length(new_value));
BEGIN
	LOOP
		SELECT version, owner, expires, sum, payer, value INTO r FROM record WHERE space = of_space AND key = of_key FOR NO KEY UPDATE;
		IF FOUND THEN
			had_version := r.version; had_owner := r.owner; had_expires := r.expires; had_sum := r.sum; had_payer := r.payer; had := r.value;
		END IF;
		IF FOUND AND r.expires > 0 AND r.expires <= at THEN
			PERFORM remove_record(of_node, of_space, of_key);
			CONTINUE;
		END IF;
		IF r.version IS NOT NULL AND r.version <> was THEN
			status := 1;
			RETURN;
		END IF;
		IF r.version IS NULL AND was <> 0 THEN
			status := 2;
			RETURN;
		END IF;
		IF r.version IS NOT NULL THEN
			more := more - cost(octet_length(of_space) + octet_length(of_key), octet_length(r.value));
			of_owner := r.owner;
		END IF;
		IF NOT fits(of_owner, more, per_owner, open) THEN
			status := 10; number := more; had_owner := of_owner;
			RETURN;
		END IF;
		number := nextval('versions');
		IF r.version IS NOT NULL THEN
			UPDATE record SET version = number, expires = new_expires, sum = crc # number # rot(new_expires, 32), value = new_value
				WHERE space = of_space AND key = of_key;
			EXIT;
		END IF;
		INSERT INTO record VALUES (of_space, of_key, number, of_owner, new_expires, crc # number # rot(new_expires, 32), payer_crc, new_value)
			ON CONFLICT DO NOTHING;
		EXIT WHEN FOUND; -- else another node was faster
	END LOOP;
	PERFORM charge(of_node, of_owner, more);
	status := 0;
END $$;

CREATE FUNCTION remove_record(of_node int, of_space bytea, of_key bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	DELETE FROM record WHERE space = of_space AND key = of_key RETURNING owner, octet_length(value) AS size INTO r;
	PERFORM charge(of_node, r.owner, -cost(octet_length(of_space) + octet_length(of_key), r.size));
END $$;

CREATE FUNCTION remove(of_node int, of_space bytea, of_key bytea, was bigint, at bigint, OUT removed boolean)
LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	SELECT version, expires INTO r FROM record WHERE space = of_space AND key = of_key FOR UPDATE;
	removed := NOT FOUND OR was = 0 OR r.version = was OR r.expires > 0 AND r.expires <= at;
	IF FOUND AND removed THEN
		PERFORM remove_record(of_node, of_space, of_key);
	END IF;
END $$;

-- append returns a row for each entry, or one row that asks. An id '' is none.
CREATE FUNCTION append(of_node int, of_space bytea, of_log bytea, of_owner bytea, ids bytea[], datas bytea[], new_expires bigint, crcs bigint[],
	log_crc bigint, at bigint, per_owner bigint, open bigint)
RETURNS TABLE (status int, number bigint, had_owner bytea, had_expires bigint, had_sum bigint, had bytea)
LANGUAGE plpgsql AS $$
DECLARE
	l log;
	e entry;
	more bigint := 0;
	log_more bigint := cost(octet_length(of_space) + octet_length(of_log), 0);
	fresh int := 0;
BEGIN
	SELECT * INTO l FROM log WHERE space = of_space AND name = of_log FOR NO KEY UPDATE;
	FOR i IN 1 .. cardinality(ids) LOOP
		IF l.id IS NOT NULL AND ids[i] <> '' AND EXISTS (SELECT FROM entry WHERE log = l.id AND id = ids[i]
				AND seq > l.trimmed AND (entry.expires = 0 OR entry.expires > at)) THEN
			CONTINUE;
		END IF;
		fresh := fresh + 1;
		more := more + cost(octet_length(ids[i]), octet_length(datas[i]));
	END LOOP;
	IF fresh > 0 THEN
		IF l.id IS NULL THEN
			more := more + log_more;
		END IF;
		IF NOT fits(of_owner, more, per_owner, open) THEN
			status := 10; number := more; had_owner := of_owner;
			RETURN NEXT;
			RETURN;
		END IF;
		WHILE l.id IS NULL LOOP
			INSERT INTO log AS made (space, name, owner, last, trimmed, sum) VALUES (of_space, of_log, of_owner, 0, 0, 0)
				ON CONFLICT DO NOTHING RETURNING made.* INTO l;
			IF FOUND THEN
				l.sum := log_crc # mix(l);
				PERFORM charge(of_node, of_owner, log_more);
			ELSE
				SELECT * INTO l FROM log WHERE space = of_space AND name = of_log FOR NO KEY UPDATE;
			END IF;
		END LOOP;
	END IF;
	l.sum := l.sum # mix(l);
	more := 0;
	FOR i IN 1 .. cardinality(ids) LOOP
		IF ids[i] <> '' THEN
			SELECT * INTO e FROM entry WHERE log = l.id AND id = ids[i];
			IF FOUND AND (e.seq <= l.trimmed OR e.expires > 0 AND e.expires <= at) THEN
				DELETE FROM entry WHERE log = l.id AND seq = e.seq;
				PERFORM charge(of_node, e.owner, -cost(octet_length(e.id), octet_length(e.data)));
			ELSIF FOUND THEN
				status := 1; number := e.seq; had_owner := e.owner; had_expires := e.expires; had_sum := e.sum; had := e.data;
				RETURN NEXT;
				CONTINUE;
			END IF;
		END IF;
		l.last := l.last + 1;
		INSERT INTO entry VALUES (l.id, l.last, nullif(ids[i], ''), of_owner, new_expires, crcs[i] # l.last # rot(new_expires, 32), datas[i]);
		more := more + cost(octet_length(ids[i]), octet_length(datas[i]));
		status := 0; number := l.last; had_owner := NULL; had_expires := NULL; had_sum := NULL; had := NULL;
		RETURN NEXT;
	END LOOP;
	IF fresh > 0 THEN
		UPDATE log SET last = l.last, sum = l.sum # mix(l) WHERE id = l.id;
		PERFORM charge(of_node, of_owner, more);
	END IF;
END $$;

-- cut hides entries at once; sweep deletes them.
CREATE FUNCTION cut(of_node int, of_space bytea, of_log bytea, up_to bigint, dropped boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	l log;
BEGIN
	SELECT * INTO l FROM log WHERE space = of_space AND name = of_log FOR UPDATE;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	IF dropped THEN
		DELETE FROM log WHERE id = l.id;
		PERFORM charge(of_node, l.owner, -cost(octet_length(of_space) + octet_length(of_log), 0));
	ELSE
		up_to := least(up_to, l.last);
		IF up_to <= l.trimmed THEN
			RETURN;
		END IF;
		l.sum := l.sum # mix(l);
		l.trimmed := up_to;
		UPDATE log SET trimmed = l.trimmed, sum = l.sum # mix(l) WHERE id = l.id;
	END IF;
	INSERT INTO garbage AS g VALUES (l.id, up_to) ON CONFLICT (log) DO UPDATE SET through = greatest(g.through, excluded.through);
END $$;

-- add_item adds an item. The limits are of the queue, its octets and its space. It also returns the item
-- that has the id, or had it, which the node checks before it commits.
CREATE FUNCTION add_item(of_node int, of_space bytea, of_queue bytea, of_id bytea, of_mark bytea, of_owner bytea, new_data bytea,
	new_expires bigint, new_keep bigint, crc bigint, place_crc bigint, body_crc bigint, at bigint, per_owner bigint, open bigint,
	most_items bigint, most_octets bigint, most_kept bigint,
	OUT status int, OUT number bigint, OUT got item)
LANGUAGE plpgsql AS $$
DECLARE
	i item;
	q counter;
	had item;
BEGIN
	LOOP
		SELECT * INTO had FROM item WHERE space = of_space AND id = of_id;
		IF FOUND THEN
			got := had;
			got.data := '';
			IF NOT had.done OR had.keep > at THEN
				status := 1;
				RETURN;
			END IF;
			PERFORM remove_item(of_node, had);
		END IF;
		i := (of_space, of_id, of_queue, 0, of_mark, of_owner, false, 0, 0, at, new_expires, new_keep, octet_length(new_data),
			0, place_crc, body_crc, new_data);
		SELECT coalesce(sum(c.items), 0) AS items, coalesce(sum(c.octets), 0) AS octets INTO q.items, q.octets
			FROM counts c WHERE kind = 2 AND space = of_space AND name = of_queue;
		IF q.items >= most_items OR q.octets > most_octets - i.size THEN
			status := 11;
			RETURN;
		END IF;
		IF most_kept <= (SELECT coalesce(sum(items), 0) FROM counts WHERE kind = 3 AND space = of_space AND name = '') THEN
			status := 12;
			RETURN;
		END IF;
		number := cost(i);
		IF NOT fits(of_owner, number, per_owner, open) THEN
			status := 10;
			RETURN;
		END IF;
		i.n := nextval('numbers');
		i.sum := crc # mix(i);
		INSERT INTO item SELECT i.* ON CONFLICT (space, id) DO NOTHING;
		EXIT WHEN FOUND; -- else another node was faster
	END LOOP;
	PERFORM count_item(of_node, i, 1, 1);
	PERFORM charge(of_node, of_owner, number);
	status := 0;
END $$;

CREATE FUNCTION remove_item(of_node int, i item) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM item WHERE space = i.space AND id = i.id;
	IF FOUND THEN
		PERFORM count_item(of_node, i, (NOT i.done)::int * -1, -1);
		PERFORM charge(of_node, i.owner, -cost(i));
	END IF;
END $$;

-- set_item writes the changed numbers of an item. was is the item before.
CREATE FUNCTION set_item(was item, i item) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
	i.sum := i.sum # mix(was) # mix(i);
	UPDATE item SET done = i.done, lease = i.lease, tries = i.tries, due = i.due, expires = i.expires, size = i.size, sum = i.sum
		WHERE space = i.space AND id = i.id;
	RETURN i.sum;
END $$;

-- begin_lease leases an item and returns it. Data of more than most octets is left out.
CREATE FUNCTION begin_lease(INOUT i item, counts boolean, most bigint, until bigint)
LANGUAGE plpgsql AS $$
DECLARE
	was item := i;
BEGIN
	i.lease := nextval('versions');
	i.tries := i.tries + counts::int;
	i.due := until;
	i.sum := set_item(was, i);
	IF i.size > most THEN
		i.data := NULL;
	END IF;
END $$;

-- lease leases the first item of a queue that is due, of a long queue that of the owner in turn.
CREATE FUNCTION lease(of_node int, of_space bytea, of_queue bytea, most bigint, until bigint, at bigint, in_order bigint,
	OUT got item, OUT next bigint)
LANGUAGE plpgsql AS $$
DECLARE
	live bigint;
	last bytea;
	who bytea;
	started boolean := false;
BEGIN
	SELECT coalesce(sum(items), 0) INTO live FROM counts WHERE kind = 2 AND space = of_space AND name = of_queue;
	IF live <= 0 THEN
		RETURN;
	END IF;
	IF live > in_order THEN
		SELECT owner INTO last FROM turn WHERE space = of_space AND queue = of_queue AND node = of_node;
		FOR who IN
			SELECT owner FROM holdings WHERE space = of_space AND queue = of_queue GROUP BY owner HAVING sum(items) > 0
			ORDER BY last IS NULL OR owner > last DESC, owner
		LOOP
			SELECT * INTO got FROM item WHERE space = of_space AND queue = of_queue AND owner = who AND NOT done AND due <= at
				ORDER BY due, n LIMIT 1 FOR UPDATE SKIP LOCKED;
			IF FOUND THEN
				INSERT INTO turn VALUES (of_space, of_queue, of_node, who) ON CONFLICT (space, queue, node) DO UPDATE SET owner = who;
				EXIT;
			END IF;
		END LOOP;
	ELSE
		SELECT * INTO got FROM item WHERE space = of_space AND queue = of_queue AND NOT done AND due <= at
			ORDER BY due, n LIMIT 1 FOR UPDATE SKIP LOCKED;
	END IF;
	IF got.space IS NOT NULL THEN
		got := begin_lease(got, true, most, until);
		RETURN;
	END IF;
	-- What is due and locked is being taken by another node, which may fail.
	SELECT due INTO next FROM item WHERE space = of_space AND queue = of_queue AND NOT done ORDER BY due LIMIT 1;
	next := greatest(next, at + 50000000 * (next <= at)::int);
END $$;

CREATE FUNCTION lease_expired(of_space bytea, most bigint, until bigint, at bigint, OUT got item, OUT next bigint)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT * INTO got FROM item WHERE space = of_space AND expires > 0 AND expires <= at AND (lease = 0 OR due <= at)
		ORDER BY expires LIMIT 1 FOR UPDATE SKIP LOCKED;
	IF FOUND THEN
		got := begin_lease(got, false, most, until);
		RETURN;
	END IF;
	SELECT least(
		(SELECT min(expires) FROM item WHERE space = of_space AND expires > 0 AND expires > at),
		(SELECT greatest(min(due), at + 50000000 * (min(due) <= at)::int) FROM item
			WHERE space = of_space AND expires > 0 AND expires <= at AND lease > 0)) INTO next;
END $$;

CREATE FUNCTION lease_item(of_space bytea, of_id bytea, most bigint, until bigint, at bigint, OUT got item, OUT next bigint)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT * INTO got FROM item WHERE space = of_space AND id = of_id AND NOT done AND (lease = 0 OR due <= at) FOR UPDATE;
	IF FOUND THEN
		got := begin_lease(got, false, most, until);
	END IF;
END $$;

-- held_item returns the item of a lease that is not ended, and locks it.
CREATE FUNCTION held_item(of_space bytea, of_id bytea, of_lease bigint) RETURNS item
LANGUAGE sql AS $$
	SELECT * FROM item WHERE space = of_space AND id = of_id AND NOT done AND lease = of_lease AND lease > 0 FOR UPDATE
$$;

CREATE FUNCTION ack(of_node int, of_space bytea, of_id bytea, of_lease bigint, at bigint, OUT ended boolean)
LANGUAGE plpgsql AS $$
DECLARE
	was item := held_item(of_space, of_id, of_lease);
	i item := was;
BEGIN
	ended := was.space IS NOT NULL;
	IF NOT ended THEN
		RETURN;
	END IF;
	IF was.keep <= at THEN
		PERFORM remove_item(of_node, was);
		RETURN;
	END IF;
	i.done := true; i.lease := 0; i.due := 0; i.expires := 0; i.size := 0;
	PERFORM set_item(was, i);
	UPDATE item SET data = '' WHERE space = i.space AND id = i.id;
	PERFORM count_item(of_node, was, -1, 0);
	PERFORM charge(of_node, was.owner, -was.size);
END $$;

CREATE FUNCTION nack(of_space bytea, of_id bytea, of_lease bigint, new_due bigint, counts boolean, OUT ended boolean)
LANGUAGE plpgsql AS $$
DECLARE
	was item := held_item(of_space, of_id, of_lease);
	i item := was;
BEGIN
	ended := was.space IS NOT NULL;
	IF ended THEN
		i.lease := 0; i.due := new_due;
		IF NOT counts AND i.tries > 0 THEN
			i.tries := i.tries - 1;
		END IF;
		PERFORM set_item(was, i);
	END IF;
END $$;

CREATE FUNCTION move(of_node int, of_space bytea, of_id bytea, of_lease bigint, new_queue bytea, new_data bytea, new_expires bigint,
	place_crc bigint, body_crc bigint, at bigint, OUT ended boolean)
LANGUAGE plpgsql AS $$
DECLARE
	was item := held_item(of_space, of_id, of_lease);
	i item := was;
BEGIN
	ended := was.space IS NOT NULL;
	IF NOT ended THEN
		RETURN;
	END IF;
	i.queue := new_queue; i.n := nextval('numbers'); i.lease := 0; i.tries := 0; i.due := at; i.expires := new_expires;
	i.size := octet_length(new_data); i.place := place_crc; i.body := body_crc; i.data := new_data;
	i.sum := was.sum # mix(was) # mix(i);
	DELETE FROM item WHERE space = of_space AND id = of_id;
	INSERT INTO item SELECT i.*;
	PERFORM count_item(of_node, was, -1, -1);
	PERFORM count_item(of_node, i, 1, 1);
	PERFORM charge(of_node, i.owner, cost(i) - cost(was));
END $$;

-- to_sweep reports whether there is anything to sweep.
CREATE FUNCTION to_sweep(at bigint) RETURNS boolean STABLE LANGUAGE sql AS $$
	SELECT EXISTS (SELECT FROM garbage) OR EXISTS (SELECT FROM record WHERE expires > 0 AND expires <= at)
		OR EXISTS (SELECT FROM entry WHERE expires > 0 AND expires <= at) OR EXISTS (SELECT FROM item WHERE done AND keep <= at)
$$;

-- sweep deletes expired and cut off rows, at most so many of each kind, and returns their number.
CREATE FUNCTION sweep(of_node int, at bigint, most int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
	r record;
	g garbage;
	i item;
	n bigint := 0;
BEGIN
	SELECT * INTO g FROM garbage ORDER BY log LIMIT 1 FOR UPDATE SKIP LOCKED;
	IF FOUND THEN
		FOR r IN
			WITH gone AS (
				DELETE FROM entry WHERE log = g.log AND seq IN (
					SELECT seq FROM entry WHERE log = g.log AND seq <= g.through ORDER BY seq LIMIT most)
				RETURNING owner, cost(coalesce(octet_length(id), 0), octet_length(data)) AS cost)
			SELECT owner, sum(cost) AS octets, count(*) AS rows FROM gone GROUP BY owner
		LOOP
			PERFORM charge(of_node, r.owner, -r.octets::bigint);
			n := n + r.rows;
		END LOOP;
		IF NOT EXISTS (SELECT FROM entry WHERE log = g.log AND seq <= g.through) THEN
			DELETE FROM garbage WHERE log = g.log;
			n := n + 1;
		END IF;
	END IF;
	FOR r IN
		WITH due AS (SELECT space, key FROM record WHERE expires > 0 AND expires <= at ORDER BY expires LIMIT most FOR UPDATE SKIP LOCKED),
		gone AS (
			DELETE FROM record USING due WHERE record.space = due.space AND record.key = due.key
			RETURNING owner, cost(octet_length(record.space) + octet_length(record.key), octet_length(value)) AS cost)
		SELECT owner, sum(cost) AS octets, count(*) AS rows FROM gone GROUP BY owner
	LOOP
		PERFORM charge(of_node, r.owner, -r.octets::bigint);
		n := n + r.rows;
	END LOOP;
	FOR r IN
		WITH due AS (SELECT log, seq FROM entry WHERE expires > 0 AND expires <= at ORDER BY expires LIMIT most FOR UPDATE SKIP LOCKED),
		gone AS (
			DELETE FROM entry USING due WHERE entry.log = due.log AND entry.seq = due.seq
			RETURNING owner, cost(coalesce(octet_length(id), 0), octet_length(data)) AS cost)
		SELECT owner, sum(cost) AS octets, count(*) AS rows FROM gone GROUP BY owner
	LOOP
		PERFORM charge(of_node, r.owner, -r.octets::bigint);
		n := n + r.rows;
	END LOOP;
	FOR i IN SELECT * FROM item WHERE done AND keep <= at ORDER BY keep LIMIT most FOR UPDATE SKIP LOCKED LOOP
		PERFORM remove_item(of_node, i);
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;
