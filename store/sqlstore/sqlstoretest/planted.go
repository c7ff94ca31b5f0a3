// Package sqlstoretest has the migrations of planted releases, for tests of upgrades.
package sqlstoretest

// PlantedSteps write every record, every item and every entry again, each with one more column. They are
// for Later of sqlstore.Options. No release has needed a step yet.
var PlantedSteps = []string{
	`CREATE TABLE next (
		space BLOB NOT NULL, key BLOB NOT NULL, version INTEGER NOT NULL, owner INTEGER NOT NULL, expires INTEGER NOT NULL,
		sum INTEGER NOT NULL, value BLOB NOT NULL, added INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (space, key)
	) WITHOUT ROWID;
	INSERT INTO next (space, key, version, owner, expires, sum, value) SELECT space, key, version, owner, expires, sum, value FROM record;
	DROP TABLE record;
	ALTER TABLE next RENAME TO record;
	CREATE INDEX record_expires ON record (expires) WHERE expires > 0;`,
	`CREATE TABLE next (n INTEGER PRIMARY KEY, sum INTEGER NOT NULL, data BLOB NOT NULL, added INTEGER NOT NULL DEFAULT 0);
	INSERT INTO next (n, sum, data) SELECT n, sum, data FROM body;
	DROP TABLE body;
	ALTER TABLE next RENAME TO body;`,
	`CREATE TABLE next (
		n INTEGER PRIMARY KEY, log INTEGER NOT NULL, seq INTEGER NOT NULL, expires INTEGER NOT NULL, data BLOB NOT NULL, added INTEGER NOT NULL DEFAULT 0
	);
	INSERT INTO next (n, log, seq, expires, data) SELECT n, log, seq, expires, data FROM chunk;
	DROP TABLE chunk;
	ALTER TABLE next RENAME TO chunk;
	CREATE UNIQUE INDEX chunk_seq ON chunk (log, seq);
	CREATE INDEX chunk_expires ON chunk (expires) WHERE expires > 0;`,
}
