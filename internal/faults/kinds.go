package faults

// Kind is a sort of fault; the label of its metrics. docs/operations.md has a row
// for each.
type Kind string

// Conditions of an aggregator.
const (
	StoreAway   Kind = "store_away"   // the store cannot be read or written
	StoreEvicts Kind = "store_evicts" // the store may drop keys, or has dropped some
	LogAway     Kind = "log_away"     // the log cannot be read
	LogShards   Kind = "log_shards"   // the log and the store have different numbers of shards
	LogFull     Kind = "log_full"     // the log is full of what is not counted yet and refuses more
	LogRefuses  Kind = "log_refuses"  // the log stores nothing, though it can be reached
	Gap         Kind = "gap"          // batches are missing before others that came
	NewerEdge   Kind = "newer_edge"   // an edge writes batches that this build cannot read
	Behind      Kind = "behind"       // accepted hits are not counted in time
	Incomplete  Kind = "incomplete"   // the counts lack hits that are gone for good
)

// Events of an aggregator.
const (
	Poisoned    Kind = "poisoned_message" // a message could not be read and was set aside
	BatchesLost Kind = "batches_lost"     // batches that neither the log nor an edge has any more
	LogReplaced Kind = "log_replaced"     // the stream is not the one that was read, or lost its tail
	StoreBehind Kind = "store_behind"     // the store went back to an older state
)

// Conditions of the embedded backend.
const (
	BackendAway  Kind = "backend_away"  // the embedded log or store cannot be opened
	StoreDamaged Kind = "store_damaged" // the file of counts was moved aside, and counted again from the log
	LogDamaged   Kind = "log_damaged"   // the files of the log were moved aside
)

// Aggregator is every kind that an aggregator can have, the embedded one included.
var Aggregator = []Kind{
	StoreAway, StoreEvicts, LogAway, LogShards, LogFull, LogRefuses, Gap, NewerEdge, Behind, Incomplete,
	Poisoned, BatchesLost, LogReplaced, StoreBehind,
	BackendAway, StoreDamaged, LogDamaged,
}

// Conditions of an edge, beside LogAway, LogShards, LogRefuses and Behind.
const (
	SpoolFailing   Kind = "spool_failing"    // the spool cannot be opened or written
	SpoolDamaged   Kind = "spool_damaged"    // a spool was moved aside, and what could be read of it is sent
	Doubtful       Kind = "doubtful_batches" // batches are in a file, because nobody knows whether they were counted
	SecretsFailing Kind = "secrets_failing"  // the secrets of visitors cannot be read or written down
	BotsFile       Kind = "bots_file"        // the file of bots cannot be used as it is
)

// Edge is every kind that an edge can have.
var Edge = []Kind{
	SpoolFailing, SpoolDamaged, Doubtful, LogAway, LogShards, LogRefuses, Behind, SecretsFailing, BotsFile,
}
