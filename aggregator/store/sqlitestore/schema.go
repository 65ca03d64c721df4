package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// schemaVersion is the user_version of the schema below.
const schemaVersion = 4

// schema is the schema of the database file. It stores unsigned numbers as signed
// numbers with the same bits.
const schema = `
-- shards: how many shards the store was created with.
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How far into the log the counts of each shard stand (store.Position), and
-- the rules in force there (store.InForce).
CREATE TABLE shard (
	shard       INTEGER PRIMARY KEY,
	seq         INTEGER NOT NULL,
	fingerprint INTEGER NOT NULL,
	version     INTEGER NOT NULL,
	revision    INTEGER NOT NULL DEFAULT 0,
	rules       BLOB NOT NULL DEFAULT (zeroblob(16))
) STRICT;

-- The highest batch sequence of each edge that was applied.
CREATE TABLE producer (
	edge  TEXT NOT NULL,
	shard INTEGER NOT NULL,
	seq   INTEGER NOT NULL,
	PRIMARY KEY (edge, shard)
) STRICT, WITHOUT ROWID;

-- What the counts lack and nobody has acknowledged (store.Loss).
CREATE TABLE loss (
	shard   INTEGER NOT NULL,
	edge    TEXT NOT NULL,
	first   INTEGER NOT NULL,
	last    INTEGER NOT NULL,
	batches INTEGER NOT NULL,
	PRIMARY KEY (shard, edge)
) STRICT, WITHOUT ROWID;

CREATE TABLE list (
	id    INTEGER PRIMARY KEY,
	shard INTEGER NOT NULL,
	name  TEXT NOT NULL,
	UNIQUE (shard, name)
) STRICT;

-- Every item that was ever counted. Other tables name it by its id, which
-- keeps what a commit changes on few pages.
CREATE TABLE item (
	id      INTEGER PRIMARY KEY,
	list_id INTEGER NOT NULL,
	name    TEXT NOT NULL,
	UNIQUE (list_id, name)
) STRICT;

-- store.Item. Times are in milliseconds since the Unix epoch.
CREATE TABLE record (
	item_id        INTEGER PRIMARY KEY,
	first          INTEGER NOT NULL,
	last           INTEGER NOT NULL,
	published      INTEGER NOT NULL,
	published_from INTEGER NOT NULL,
	duplicates     INTEGER NOT NULL
) STRICT;

-- store.Set with its store.Totals.
CREATE TABLE board (
	id         INTEGER PRIMARY KEY,
	list_id    INTEGER NOT NULL,
	name       TEXT NOT NULL,
	views      INTEGER NOT NULL DEFAULT 0,
	uniques    INTEGER NOT NULL DEFAULT 0,
	duplicates INTEGER NOT NULL DEFAULT 0,
	newest     INTEGER NOT NULL DEFAULT 0,
	landmark   INTEGER NOT NULL DEFAULT 0,
	UNIQUE (list_id, name)
) STRICT;

-- store.Tally of the items of a board.
CREATE TABLE entry (
	board_id INTEGER NOT NULL,
	item_id  INTEGER NOT NULL,
	score    REAL NOT NULL,
	uniques  INTEGER NOT NULL,
	PRIMARY KEY (board_id, item_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_by_score ON entry (board_id, score);

-- The distinct visitors of a board, as a HyperLogLog of 2^14 registers.
CREATE TABLE visitors (
	board_id INTEGER PRIMARY KEY,
	sketch   BLOB NOT NULL
) STRICT;

-- The memos (store.Memo) of a list and term: term is its number in termNumbers,
-- start its beginning in seconds since the Unix epoch. expires is when they may
-- go, by this machine's clock, in milliseconds since the Unix epoch, give or take
-- an hour; NULL for never.
CREATE TABLE term (
	id      INTEGER PRIMARY KEY,
	list_id INTEGER NOT NULL,
	term    INTEGER NOT NULL,
	start   INTEGER NOT NULL,
	expires INTEGER,
	UNIQUE (list_id, term, start)
) STRICT;

CREATE TABLE memo (
	term_id INTEGER NOT NULL,
	key     INTEGER NOT NULL,
	value   INTEGER NOT NULL,
	PRIMARY KEY (term_id, key)
) STRICT, WITHOUT ROWID;
`

// migrate creates the schema in an empty file and refuses any schema that this
// build does not know.
func migrate(ctx context.Context, conn *sql.Conn, shards int) error {
	var version int
	if err := conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("reading the version of the schema: %w", err)
	}
	if version == 0 {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(
			"BEGIN IMMEDIATE; %s INSERT INTO meta VALUES ('shards', '%d'); PRAGMA user_version = %d; COMMIT", schema, shards, schemaVersion))
		if err != nil {
			return fmt.Errorf("creating the schema: %w", err)
		}
		return nil
	}
	if version != schemaVersion {
		return fmt.Errorf("the file has schema version %d, this build knows %d: use the build that wrote it, or use another directory and let the aggregator count the log again", version, schemaVersion)
	}
	// One flipped byte in the schema can hide a table.
	var ours int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE instr(?, sql) > 0", schema).Scan(&ours); err != nil {
		return fmt.Errorf("reading the schema: %w", err)
	}
	if want := strings.Count(schema, "\nCREATE "); ours != want {
		return damaged(fmt.Errorf("only %d of its %d tables and indexes are intact", ours, want))
	}
	var has string
	err := conn.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'shards'").Scan(&has)
	if errors.Is(err, sql.ErrNoRows) {
		return damaged(errors.New("the number of shards is missing"))
	}
	if err != nil {
		return fmt.Errorf("reading the number of shards: %w", err)
	}
	if has != strconv.Itoa(shards) {
		return fmt.Errorf("the store has %s shards, but the configuration has %d: the number is fixed at creation; "+
			"set it back, or use another directory and let the aggregator count the log again", has, shards)
	}
	return nil
}
