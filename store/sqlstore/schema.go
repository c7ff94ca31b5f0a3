package sqlstore

// The schema. Rows with data of callers have a checksum (sum.go). Times are nanoseconds
// since 1970 on the clock of the store; 0 means never.
//
// Records have no rowid, so that finding and writing a row touches one tree. Entries that a
// transaction appends to one log share a row (chunk.go). Chunks have a rowid in order of arrival, so
// that all logs grow at one end of one tree: with 64 logs an append touches half as many pages as
// with a tree ordered by log.
//
// The data of an item is in a separate table, so that leasing an item writes only the small
// row of its state.
const applicationID = 0x53575053 // "SWPS"

// firstSchema is the schema of the first release. steps[i] makes schema firstSchema+i+1 of the one
// before. A release that changes the schema appends a step, and never changes an earlier one; the
// result of all steps is the schema below. No step changes the table of the state.
const firstSchema = 3

var steps = []step{}

const schema = `
CREATE TABLE state (
	id       INTEGER PRIMARY KEY, -- 1
	commits  INTEGER NOT NULL,    -- transactions so far
	versions INTEGER NOT NULL,    -- the last version given to a record
	ids      INTEGER NOT NULL,    -- the last number given to an owner or a log
	clock    INTEGER NOT NULL,    -- time of the last transaction
	sum      INTEGER NOT NULL
);
CREATE TABLE owner (
	id   INTEGER PRIMARY KEY,
	name BLOB NOT NULL UNIQUE,
	used INTEGER NOT NULL, -- octets; an owner of nothing has no row
	sum  INTEGER NOT NULL
);
CREATE TABLE record (
	space   BLOB NOT NULL,
	key     BLOB NOT NULL,
	version INTEGER NOT NULL,
	owner   INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	sum     INTEGER NOT NULL,
	value   BLOB NOT NULL,
	PRIMARY KEY (space, key)
) WITHOUT ROWID;
CREATE INDEX record_expires ON record (expires) WHERE expires > 0;
CREATE TABLE log (
	id      INTEGER PRIMARY KEY,
	space   BLOB NOT NULL,
	name    BLOB NOT NULL,
	owner   INTEGER NOT NULL, -- of the first entry
	last    INTEGER NOT NULL, -- the last number, as far as it is not to be seen from the entries
	trimmed INTEGER NOT NULL, -- entries up to here do not count any more
	sum     INTEGER NOT NULL,
	UNIQUE (space, name)
);
CREATE TABLE chunk (
	n       INTEGER PRIMARY KEY,
	log     INTEGER NOT NULL,
	seq     INTEGER NOT NULL, -- of its last entry
	expires INTEGER NOT NULL, -- of the entry that expires last
	data    BLOB NOT NULL     -- its entries (chunk.go)
);
CREATE UNIQUE INDEX chunk_seq ON chunk (log, seq);
CREATE INDEX chunk_expires ON chunk (expires) WHERE expires > 0;
CREATE TABLE name ( -- of an entry with an id
	log INTEGER NOT NULL,
	id  BLOB NOT NULL,
	seq INTEGER NOT NULL,
	PRIMARY KEY (log, id)
) WITHOUT ROWID;
CREATE TABLE garbage (
	log     INTEGER PRIMARY KEY, -- its entries up to
	through INTEGER NOT NULL     -- this number are still to be deleted
);
CREATE TABLE line (
	id    INTEGER PRIMARY KEY, -- of a queue
	space BLOB NOT NULL,
	name  BLOB NOT NULL,
	live  INTEGER NOT NULL, -- items that are not done
	kept  INTEGER NOT NULL, -- and all; a queue of nothing has no row
	sum   INTEGER NOT NULL,
	UNIQUE (space, name)
);
CREATE TABLE item (
	line    INTEGER NOT NULL,
	n       INTEGER NOT NULL,
	space   BLOB NOT NULL,
	id      BLOB NOT NULL,
	mark    BLOB NOT NULL,
	owner   INTEGER NOT NULL,
	done    INTEGER NOT NULL, -- 0 or 1; then only the id is remembered
	lease   INTEGER NOT NULL, -- the last that is not ended, or 0
	tries   INTEGER NOT NULL,
	due     INTEGER NOT NULL, -- may be taken then; under a lease its end
	expires INTEGER NOT NULL,
	keep    INTEGER NOT NULL, -- how long the id is remembered
	size    INTEGER NOT NULL, -- octets of data
	sum     INTEGER NOT NULL,
	PRIMARY KEY (line, n)
) WITHOUT ROWID;
CREATE UNIQUE INDEX item_id ON item (space, id);
CREATE INDEX item_due ON item (line, due, n) WHERE done = 0;
CREATE INDEX item_expires ON item (space, expires) WHERE expires > 0;
CREATE INDEX item_keep ON item (keep) WHERE done = 1;
CREATE TABLE body (
	n    INTEGER PRIMARY KEY, -- of the item
	sum  INTEGER NOT NULL,
	data BLOB NOT NULL
);
`
